"""The sandbox: what stands in for S3, SQS, the cluster, KServe and the router on one machine.

From the top: `__main__` (the command line); `demo` and `lab`; `lifecycle`, `setup` and `load`; `emulator`, which
starts `kserve` and `cluster` in one process; `services`; `host`. A part imports only what is below it, and nothing
here imports benchmarks, tests, plugins or DAGs.
"""
