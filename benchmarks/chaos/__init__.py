"""Releases under live traffic while everything dies: `make chaos`, or `python -m benchmarks.chaos --runs N`."""
