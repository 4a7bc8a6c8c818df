"""What the programs that drive a load generator share."""
