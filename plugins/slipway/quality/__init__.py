"""great-expectations: tables checked by its own validation definitions and checkpoints, its results, its Data Docs."""
