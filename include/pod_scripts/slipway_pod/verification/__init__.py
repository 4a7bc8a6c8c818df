"""A published version, read without trust in who wrote it: its manifest and its signature.

Uses Python, boto3 and cryptography alone, because KServe's storage initializer runs it.
"""
