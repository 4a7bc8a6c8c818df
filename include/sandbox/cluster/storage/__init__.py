"""The cluster's objects: in memory with versions and a history, on disk, and the events about them."""
