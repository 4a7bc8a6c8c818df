"""What users met: requests, errors and latencies of the two revisions in windows, and how Prometheus is asked for them.

Values and texts of queries only: who sends them is `slipway.metrics`, what they mean for a candidate is `canary`.
"""
