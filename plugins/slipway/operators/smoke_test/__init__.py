"""The smoke test: a published version on a Triton of its own, before any server that others use loads it."""
