"""The waits of the reconciler: what becomes of one that is in vain, or for pods that do not come up."""
