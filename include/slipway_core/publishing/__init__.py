"""A published version: its manifest, the decision that comes before it, what it was made of, and its signature.

Documents read with distrust and written alike for alike content. Nothing here copies a byte.
"""
