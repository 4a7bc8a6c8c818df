"""The pods of a release: the common parts of their manifests, and why a pod without a result failed."""
