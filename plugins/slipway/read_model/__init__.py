"""The read model in the object store: who reads its documents for pages, and who keeps them current.

Nothing here decides anything about a release, and no release waits for it.
"""
