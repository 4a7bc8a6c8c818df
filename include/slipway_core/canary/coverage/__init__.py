"""What the windows of a canary cover: whether requests were answered at all, and when and how latencies count."""
