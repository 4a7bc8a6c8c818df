"""The Helm chart and the manifests that are rendered from it: where they lie, and how they are read."""
