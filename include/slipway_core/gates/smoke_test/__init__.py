"""The smoke test: what a version did on a tritonserver of its own, held against the release file's limits."""
