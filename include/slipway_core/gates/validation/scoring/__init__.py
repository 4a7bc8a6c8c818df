"""`kind: custom`: what the scorer's pod is given, what it returned, and the figures compared with their limits."""
