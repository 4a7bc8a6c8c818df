"""How many pods of a Deployment answer, what they serve, and how many a share of the traffic needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway_core.rollout.fields import SOURCE_URI, conditions, items, mapping, text, texts, whole

_SAID_LIMIT = 600
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Replicas:
    """How many pods a Deployment wants, and how many of its present template answer for certain.

    `storage_uri` is what the template serves, "" if it does not tell; `are_alike`: there are no pods of another one.
    `refused` is why the cluster makes no more pods of it, such as a quota or a webhook's answer; "" if it does.
    """

    wanted: int
    available: int
    storage_uri: str = field(default="", compare=False)
    are_alike: bool = field(default=False, compare=False)
    refused: str = field(default="", compare=False)


def read_deployments(deployments: Iterable[Mapping[str, Any]]) -> dict[str, Replicas]:
    """Return the pods by Deployment.

    While a rolling update is under way the pods of the old template do not count, and where the status is of another
    generation, none does.
    """
    return {
        text(mapping(one.get("metadata")).get("name")): _replicas(one) for one in items(list(deployments))
    }


def _replicas(deployment: Mapping[str, Any]) -> Replicas:
    spec, status = mapping(deployment.get("spec")), mapping(deployment.get("status"))
    generation = whole(mapping(deployment.get("metadata")).get("generation")) or 0
    wanted = whole(spec.get("replicas"))
    uri = texts(mapping(mapping(spec.get("template")).get("metadata")).get("annotations")).get(SOURCE_URI, "")
    if (whole(status.get("observedGeneration")) or 0) < generation:
        return Replicas(1 if wanted is None else wanted, 0, uri, refused=_refused(status))
    total, updated, available = (
        max(whole(status.get(key)) or 0, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")
    )
    certain = max(available - max(total - updated, 0), 0)
    alike, wanted = total == updated, 1 if wanted is None else wanted
    return Replicas(wanted, certain, uri, are_alike=alike, refused=_refused(status))


def _refused(status: Mapping[str, Any]) -> str:
    found = (one for one in conditions(status, "ReplicaFailure") if one.get("status") == "True")
    return next((" ".join(text(one.get("message")).split())[:_SAID_LIMIT] for one in found), "")


def needed(replicas: int, weight: int) -> int:
    """Return how many pods carry `weight` percent of what `replicas` carry; one at least."""
    return max(-(-replicas * weight // 100), 1)


def number_in(note: str) -> int | None:
    """Return the number of replicas that a note tells; None if it tells none."""
    return int(note) if note.isascii() and _NUMBER.fullmatch(note) else None
