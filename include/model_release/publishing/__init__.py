"""A published version: its manifest, what was decided before it was sealed, what it was made of and signed by.

Documents read with distrust and written alike for alike content. Nothing here copies a byte.
"""
