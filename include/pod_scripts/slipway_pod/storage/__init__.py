"""Files between the pod and S3: read, sent, and placed in a folder at once.

Knows nothing of models and of the command line.
"""
