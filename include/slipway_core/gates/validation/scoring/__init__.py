"""`kind: custom`: what the scorer's pod is given, what it returned, and the figures held against their limits."""
