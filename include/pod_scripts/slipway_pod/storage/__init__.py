"""Files between the pod and S3: read, sent, unpacked, placed in one go."""
