"""The validation gate: a golden set, the model's answers scored by kind, and the expectations of the scores.

Great Expectations evaluates the expectations in `slipway`; here they are only named.
"""
