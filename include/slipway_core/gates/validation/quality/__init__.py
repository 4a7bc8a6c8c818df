"""Suites of expectations over tables: the golden set's own, and that of the answers. Here no suite is run."""
