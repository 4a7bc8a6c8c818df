"""What a release's pods are started with, and why one that has left no result failed."""
