"""Data Docs of great-expectations as pages of evidence: each is one file, loads nothing, and has nothing that runs."""
