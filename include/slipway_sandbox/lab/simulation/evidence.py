"""What is read of a model besides its InferenceService, as the dialect that it speaks asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slipway_core.rollout.dialects.knative.resources import KNATIVE_SERVICES, REVISIONS
from slipway_core.rollout.dialects.standard.resources import DEPLOYMENTS, HTTP_ROUTES
from slipway_core.rollout.reading import Evidence


def standard_evidence(routes: Iterable[Any] = (), deployments: Iterable[Any] | None = None) -> Evidence:
    """Return HTTPRoutes and Deployments as Standard mode reads them.

    :param deployments: None: they could not be read.
    """
    seen = {} if deployments is None else {DEPLOYMENTS: tuple(deployments)}
    return Evidence({HTTP_ROUTES: tuple(routes), **seen})


def knative_evidence(service: Any = None, revisions: Iterable[Any] = (), unread: str = "") -> Evidence:
    """Return a Knative Service and revisions as Knative mode reads them.

    :param service: None: there is none, or it was not read.
    :param unread: why one of these could not be read.
    """
    services = () if service is None else (service,)
    return Evidence({KNATIVE_SERVICES: services, REVISIONS: tuple(revisions)}, unread)
