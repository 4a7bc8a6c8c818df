"""Data Docs of great-expectations as pages of evidence: each one file, in which nothing runs and which loads nothing."""
