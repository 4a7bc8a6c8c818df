"""The cluster's objects: in memory with versions and a history, on disk, and the events about them.

Every write passes admission, except what the cluster itself changes. It knows nothing of HTTP or of processes.
"""
