"""What each image of the lane is built upon: the base that was named, or else a stand-in for the Dockerfile's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from tests.support.containers.engine import Engine, containers_dir
from tests.support.containers.ledger import Ledger
from tests.support.containers.stand_in_base import Report, provide_python_base
from tests.support.containers.stand_in_triton import provide_triton_base

Provide = Callable[[Engine, Path, Report], str]
# By the beginning of a Dockerfile's own base: the variable that names another one, and what makes a stand-in.
BASES: dict[str, tuple[str, Provide]] = {
    "python:": ("SLIPWAY_BASE_IMAGE", provide_python_base),
    "nvcr.io/nvidia/tritonserver:${RELEASE}-py3": ("SLIPWAY_TRITON_BASE_IMAGE", provide_triton_base),
}


def default_base(dockerfile: Path) -> str:
    """Return the base that a Dockerfile names."""
    named = re.search(r"^ARG BASE_IMAGE=(\S+)$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE)
    assert named is not None, dockerfile
    return named[1]


def has_base(dockerfile: Path) -> bool:
    """Tell whether there is a stand-in for its base: there is none for those that need NVIDIA's own libraries."""
    return default_base(dockerfile).startswith(tuple(BASES))


class Bases:
    """The bases of one run, each provided when it is first asked for."""

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._provided: dict[str, str] = {}

    def of(self, dockerfile: Path) -> str:
        """Return the name of the base for a Dockerfile.

        :raises NoEngineError: what a stand-in is built with is not there.
        """
        wanted = default_base(dockerfile)
        if wanted not in self._provided:
            variable, provide = next(found for start, found in BASES.items() if wanted.startswith(start))
            named = os.environ.get(variable)
            self._provided[wanted] = named or provide(self._engine, containers_dir(), print)
            text = named or f"a stand-in for {wanted} ({self._provided[wanted]})"
            self._ledger.bases.append(text)
        return self._provided[wanted]
