"""The keys for S3 of a pod's program, kept from what it runs.

A scorer, a model on its own server and a builder run what others wrote, under the same user. They are given an
environment without the keys. And since the kernel shows the environment of a process to every process of its user, the
program that has them makes itself unreadable. What is left are the rights that the pod itself has, by its service
account or its node.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from slipway_pod.errors import PodError

KEYS = "AWS_"
PR_SET_DUMPABLE = 4


def hide_from_others() -> None:
    """Make this process unreadable to others of its user: its environment and memory in /proc, and by ptrace.

    A process that it starts again is readable again; one that is only forked is not.

    :raises PodError: the kernel does not do it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise PodError(
            "SlipwayError",
            "This program cannot keep its keys from the programs that it runs",
            expected="a kernel that takes prctl(PR_SET_DUMPABLE, 0)",
            found=os.strerror(ctypes.get_errno()),
            remedy="see which runtime, and which seccomp profile, the pod has",
        )


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of S3's clients."""
    return {name: value for name, value in environment.items() if not name.startswith(KEYS)}
