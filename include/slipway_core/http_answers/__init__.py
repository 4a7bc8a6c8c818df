"""What the answer of any HTTP server says of what to do next."""
