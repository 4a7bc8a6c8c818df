"""Models and their data as files: ONNX, config.pbtxt, templates, tensors, golden sets, and what models answer.

Knows no S3 and no command line.
"""
