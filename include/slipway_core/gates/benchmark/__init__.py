"""The benchmark gate: what was measured, compared with the release file's limits and against the stable version.

`result` is the typed result, whatever tool measured; `interval` compares paired rounds; `comparison` holds each figure
against its limit; `verdict` says pass, fail or inconclusive. Nothing here measures.
"""
