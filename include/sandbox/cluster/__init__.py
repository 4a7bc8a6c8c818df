"""An emulator of the part of the Kubernetes API that Slipway and Airflow use; its pods are local processes.

    python -m include.sandbox.cluster --config cluster.json

`store` holds the objects and their history, `api` speaks HTTP, `pods` runs what is to run. What it cannot do
it refuses in the words of the real API server; it never runs a command that comes by `exec`.
"""
