"""The tasks of `registry_sync`: which models have a registry, and one sync of each."""
