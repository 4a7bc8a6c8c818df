"""What the windows of a canary cover: whether requests were answered at all, and whether latencies were compared."""
