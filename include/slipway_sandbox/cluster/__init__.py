"""An emulator of the part of the Kubernetes API that Slipway and Airflow use; its pods are local processes.

`api` speaks HTTP, `node` runs the pods, `storage` holds the objects and their history, `admission` decides what may
be stored. What the emulator cannot do it refuses in the words of the real API server; it never runs a command that
comes by `exec`. Nothing here knows KServe: `slipway_sandbox.emulator` starts both.
"""
