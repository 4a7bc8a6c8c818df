"""Numbers of releases for Prometheus: read from the read model, and written as OpenMetrics or as a text file.

Nothing here decides anything about a release, and no release waits for it.
"""
