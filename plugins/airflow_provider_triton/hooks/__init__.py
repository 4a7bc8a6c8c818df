"""The hook on a Triton server."""
