"""Programs that run in pods, and `slipway_pod`, which they share. Each is run by its path; no module imports them."""
