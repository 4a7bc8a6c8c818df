"""Edits that people make to an InferenceService while slipway rolls it out or back, held against what users get."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from benchmarks.fuzz.foreign_edits import one_edit, play, some_edits
from benchmarks.fuzz.target import Target


def _mutated(dialect: str) -> Callable[[Random, Any], Any]:
    return lambda rng, _seeds: some_edits(rng, dialect)


# Each input is played for each story and goal.
TARGETS = tuple(
    Target(
        f"edits_{dialect.lower()}",
        partial(one_edit, dialect),
        _mutated(dialect),
        partial(play, dialect),
        share=3.0,
    )
    for dialect in ("Knative", "Standard")
)
