"""The release file's `serving`: what becomes the model's config.pbtxt.

Only options and limits; how they are laid over training's configuration is decided in `triton_config`.
"""
