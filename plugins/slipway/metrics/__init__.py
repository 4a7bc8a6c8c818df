"""Where the judge's numbers come from: Prometheus, or Envoy's own endpoints, behind one protocol.

A source returns readings of counters and histograms, or says that it has none; it never decides what they mean.
"""
