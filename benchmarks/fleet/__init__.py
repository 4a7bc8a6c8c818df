"""Eight real tritonservers that change a model's version as one, under live traffic, also when something fails.

`make bench ONLY=fleet_mixed_version_window_ms`, or `python -m benchmarks.fleet --runs N` for the runs with faults.
"""
