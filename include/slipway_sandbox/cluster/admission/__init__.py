"""Admission: what an object must be like before it is stored, by schemas, KServe's webhooks and Pod Security.

Pure functions of one object: nothing here reads or writes the store.
"""
