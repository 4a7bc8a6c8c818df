"""The tasks of what release files schedule: the benchmark of the live version, and which runs are due."""
