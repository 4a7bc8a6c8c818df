"""What the programs beside this package share. It imports libraries and `slipway_rules`, and none of the programs.

Whatever cannot be done is a `PodError`; a docstring names it where the caller must know when it comes.
"""
