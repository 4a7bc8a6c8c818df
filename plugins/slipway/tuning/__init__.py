"""The parts that a tuning works with: what Optuna suggests, what lies in the bucket, what is loaded on staging.

The optimiser runs in the worker, not in a pod: it thinks for milliseconds and waits for minutes, the way to Triton's
model control is the worker's, and its state is the trials' documents in the bucket. Optuna is imported by the functions
that ask it, never where DAG files are read.
"""
