"""Where the judge's numbers come from: a module for each source."""
