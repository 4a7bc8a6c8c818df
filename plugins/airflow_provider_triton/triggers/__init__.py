"""Waiting for a Triton server without holding a worker."""
