"""Which dialect an InferenceService speaks: the one place that knows all of them.

    observed = observe(isvc, evidence)
    dialect_of(isvc).extra_readings(isvc), dialect_named(observed.dialect).roll_back(goal, observed)

KServe's deployment mode chooses; where no mode is named it is Knative, KServe's own default. An unknown mode is refused
on the way up (`preflight`). It is read, and taken back, as Knative's, whose notes lie on the object itself: the way
back needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.rollout.dialects.knative.dialect import KnativeDialect
from slipway_core.rollout.dialects.protocol import Dialect
from slipway_core.rollout.dialects.standard.dialect import StandardDialect
from slipway_core.rollout.fields import deployment_mode, mapping, texts
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reading import NOTHING_ELSE, Evidence

_STOP = "serving.kserve.io/stop"
_DEFAULT = KnativeDialect.name

# By deployment mode.
DIALECTS: dict[str, Dialect[Any]] = {one.name: one for one in (KnativeDialect(), StandardDialect())}


def dialect_of(isvc: Mapping[str, Any]) -> Dialect[Any]:
    """Return the dialect that an InferenceService, or the manifest of one, speaks."""
    return DIALECTS.get(deployment_mode(isvc), DIALECTS[_DEFAULT])


def dialect_named(name: str) -> Dialect[Any]:
    """Return the dialect of this name, such as an observation's.

    :raises KeyError: there is none.
    """
    return DIALECTS[name]


def observe(isvc: Mapping[str, Any], evidence: Evidence = NOTHING_ELSE) -> Observed:
    """Read an InferenceService (v1beta1, as the API returns it), with what was read besides it.

    A missing status reads as "nothing happened yet".
    """
    observed: Observed = dialect_of(isvc).observe(isvc, evidence, preflight(isvc, evidence))
    return observed


def preflight(
    isvc: Mapping[str, Any], evidence: Evidence = NOTHING_ELSE, config: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the reasons why a canary would not work, each with what to do; empty if none is seen.

    A manifest that was not created yet has no status, and nothing is missing from that.

    :param config: the data of the dialect's ConfigMap; None if it was not asked, or cannot be seen.
    """
    mode = deployment_mode(isvc) or _DEFAULT
    if mode not in DIALECTS:
        known = " or ".join(DIALECTS)
        return (f"The deployment mode {mode} cannot split traffic; deploy in {known} mode.",)
    metadata = mapping(isvc.get("metadata"))
    stopped: tuple[str, ...] = ()
    if texts(metadata.get("annotations")).get(_STOP, "").lower() == "true":
        stopped = (f"The service is stopped by its annotation {_STOP}; remove that first.",)
    return (*stopped, *DIALECTS[mode].preflight(isvc, evidence, config))
