"""Mirrored requests: read, asked of both versions, and the answers compared."""
