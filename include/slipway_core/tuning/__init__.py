"""Tuning: which settings of Triton are searched, what a trial has shown, and what is proposed.

Values in, values out: no server, no store, no optimiser. What asks Optuna lies in `slipway.tuning`, what measures in
`slipway.operators.tuning`. Nothing here changes a release file; it makes the text of a change.
"""
