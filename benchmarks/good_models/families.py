"""All families."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.good_models.estimators import estimators
from benchmarks.good_models.family import Family
from benchmarks.good_models.graphs import graphs
from benchmarks.good_models.networks import networks
from benchmarks.good_models.pipelines import pipelines
from benchmarks.good_models.repositories import repositories


def families() -> list[Family]:
    """Return all of them, those that take longest first."""
    return [*graphs(), *networks(), *repositories(), *estimators(), *pipelines()]


def chosen(names: Sequence[str]) -> list[Family]:
    """Return the families of these names; all where none is given.

    :raises ValueError: there is no such family.
    """
    found = families()
    unknown = set(names) - {one.name for one in found}
    if unknown:
        raise ValueError(f"no such family: {', '.join(sorted(unknown))}")
    return [one for one in found if not names or one.name in names]
