"""Becomes another program, which the kernel ends with its parent: `launch.py DATA_BYTES PROGRAM [ARGUMENT …]`.

DATA_BYTES limits the program's private writable memory (RLIMIT_DATA); 0 does not. A program of its own and no
`preexec_fn`: between fork and exec nothing may run in a process whose gRPC has threads.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the program that the arguments name; do not return."""
    data_bytes, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if data_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))
    os.execv(program, sys.argv[2:])  # noqa: S606


if __name__ == "__main__":
    main()
