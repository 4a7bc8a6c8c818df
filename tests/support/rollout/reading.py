"""Reading an InferenceService with what lies beside and behind it, in whichever mode it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slipway_core.rollout.dialects import registry
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reading import Evidence
from slipway_sandbox.lab.simulation.evidence import knative_evidence, standard_evidence


def observe(
    isvc: Any,
    routes: Iterable[Any] = (),
    deployments: Iterable[Any] | None = None,
    *,
    behind: Any = None,
    revisions: Iterable[Any] = (),
    unseen: str = "",
) -> Observed:
    """Observe an InferenceService; HTTPRoutes and Deployments are Standard mode's, all else is Knative mode's."""
    standard, knative = standard_evidence(routes, deployments), knative_evidence(behind, revisions)
    return registry.observe(isvc, Evidence({**standard.objects, **knative.objects}, unseen))


def preflight(isvc: Any, routes: Iterable[Any] = (), config: Any = None) -> tuple[str, ...]:
    """Return why no canary would work; `config` is the data of the mode's ConfigMap."""
    return registry.preflight(isvc, standard_evidence(routes), config)
