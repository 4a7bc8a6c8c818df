"""The smoke test: what a version did on its own tritonserver, compared with the release file's limits."""
