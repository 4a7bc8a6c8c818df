"""Numbers of releases for other people's dashboards: which metrics there are, and their samples. Values in, values out.

Where the judge's own numbers come from is another matter: `include/slipway_core/metrics/`.
"""
