"""What reads the judge's numbers: a module for each source."""
