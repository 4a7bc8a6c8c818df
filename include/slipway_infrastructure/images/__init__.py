"""Builds the images of include/images, pushes them to a registry, and writes down what was pushed.

The standard library alone: Docker, Podman or Buildah builds and pushes, and cyclonedx-bom writes the lists of packages.
"""
