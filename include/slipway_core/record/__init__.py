"""The record of a release: append-only events, and the state that they fold to.

The record is the truth about a release. Nothing here stores an event.
"""
