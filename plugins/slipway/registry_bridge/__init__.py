"""The bridge to a model registry: promoted versions become arrivals, and the registry gets their outcomes.

Nothing here is part of a release: what is not reached now is put right by the next sync.
"""
