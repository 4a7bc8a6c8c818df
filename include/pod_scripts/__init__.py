"""Programs that run in pods, `slipway_pod`, which they share, and a link to `slipway_rules`.

Each is run by its path; no module imports them.
"""
