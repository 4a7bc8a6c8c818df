"""The release file, typed: what a model is made of, how it is served, what it must prove.

Each key of the file is one field of one class here, with its default and its limits. Nothing here decides anything
about a release, reads a file of the model, or knows what Triton, KServe or Prometheus answer.
"""
