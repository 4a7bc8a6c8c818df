"""The record of a release and the lock of a model, in the object store: each write is conditional.

What events mean is decided in `slipway_core.record`; here they are stored and read.
"""
