"""The release file's pods: what each may say of its node, its resources and its rights to be scheduled.

The forms are Kubernetes' own, in the release file's spelling, and checked against Kubernetes' own rules: what its API
would refuse hours later is refused where the file is read.
"""
