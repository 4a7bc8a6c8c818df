"""config.pbtxt: built, laid over training's own, brought into one canonical form, compared and checked.

Configurations are dictionaries in Triton's JSON form. Only `pbtxt` and `fields` know protobuf. Nothing here loads a
model or asks a server.
"""
