"""A smoke test: a published version on its own tritonserver, before any server that others use loads it.

What is measured here is not judged here: the report says what happened, and the release file's limits decide outside.
"""
