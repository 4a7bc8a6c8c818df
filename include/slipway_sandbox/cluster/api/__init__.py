"""The API server: addresses, verbs, watches and pods' logs, answered as the real one answers.

It turns requests into calls of the store and decides nothing about objects.
"""
