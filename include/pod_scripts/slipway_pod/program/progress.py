"""What a program tells of its progress, in the pod's log."""

from __future__ import annotations


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)
