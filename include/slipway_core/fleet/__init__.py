"""Many Triton servers as one: what to do next on each, whether they agree, what a server is asked to load.

Values in, values out: the servers, the object store and the clock are in `plugins/slipway/fleet/`.
"""
