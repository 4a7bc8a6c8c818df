"""The progress of a program, in the pod's log."""

from __future__ import annotations


def say(phase: str, text: str) -> None:
    """Print one line of progress."""
    print(f"{phase}: {text}", flush=True)
