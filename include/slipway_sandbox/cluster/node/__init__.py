"""The node: pods as local processes, their containers, logs and images.

It reads and writes pods in the store, and knows nothing of HTTP.
"""
