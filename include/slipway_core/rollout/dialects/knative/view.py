"""What an InferenceService's status tells of its Knative route: who gets the traffic, and whether it is so already.

`traffic` is what Knative intends. It is written before the ingress has taken it, with PredictorRouteReady "Unknown"
(IngressNotConfigured); a slow ingress leaves it so for seconds, a dead one forever. Recorded on KServe's main of
2026-08-21 with Knative Serving 0.48: 0.3 to 1.5 s at every change.

Whether a "True" is left over from before: KServe copies traffic and condition in one from the Knative Service, which
has both in one from the Route (`PropagateStatus`, `PropagateRouteStatus`), and the Route asks its ingress after it has
written the traffic. So "True" is about the traffic beside it; in the recordings new traffic came with "True" only where
it led nobody elsewhere. Both may be older than the spec, though: the target of the latest revision has the percent of
the spec once Knative has acted on it, and another one before. `status.observedGeneration` tells neither (kserve#6081),
`lastTransitionTime` has whole seconds and stays where two changes were seen as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway_core.rollout.fields import (
    RESTORED_AT,
    SOURCE_URI,
    condition_is_true,
    conditions,
    is_made_for,
    is_percent,
    items,
    mapping,
    percent,
    text,
    texts,
    whole,
)

ROUTE_READY = "PredictorRouteReady"


@dataclass(frozen=True)
class KnativeView:
    """Percent by revision in `shares`, `is_whole` where that is all; `urls` are the tags' hosts, by revision.

    `route_pending` is why the router is not known to do so, "" if it is; `route_reported` whether the status reports
    the route's readiness at all.
    """

    shares: Mapping[str, int]
    is_whole: bool
    urls: Mapping[str, str]
    route_pending: str
    route_reported: bool


@dataclass(frozen=True)
class RevisionTemplate:
    """What pods are made of: the storageUri that they serve, and the rollback that named it (`RESTORED_AT`); "" if not
    given.
    """

    storage_uri: str = ""
    restored_at: str = ""


@dataclass(frozen=True)
class KnativeService:
    """The Knative Service that KServe has made of the predictor: what its spec asks Knative to lead users to.

    Its spec is what KServe has acted on last, and its generations are its own. `is_routed`: Knative and its ingress
    have done what the targets ask for. `is_settled`: and all else; then `latest_ready` is of `template`.
    """

    name: str
    resource_version: str
    targets: tuple[Mapping[str, Any], ...]
    template: RevisionTemplate = field(default_factory=RevisionTemplate)
    latest_ready: str = ""
    is_routed: bool = False
    is_settled: bool = False

    @property
    def latest_percent(self) -> int:
        """What its spec gives to whichever revision is the latest ready one."""
        return _latest_percent(self.targets)

    def pending(self, wanted: int | None, actual: Mapping[str, int]) -> str:
        """Return why users are not known to be led by what the InferenceService says; "" if they are.

        :param wanted: the percent in the spec.
        :param actual: the traffic in the status, percent by revision.
        """
        if self.latest_percent != (100 if wanted is None else wanted):
            return f"its Knative Service still asks for {self.latest_percent} % for the newest revision"
        asked, _ = _traffic(self.targets, self.latest_ready)
        if _users(asked) != _users(actual):
            return "its Knative Service asks for something else by now"
        return "" if self.is_routed else "Knative has not done yet what its Knative Service asks for"


def knative_service_name(service: str) -> str:
    """Return the name of the Knative Service that KServe makes of an InferenceService's predictor."""
    return f"{service}-predictor"


def knative_service(found: Mapping[str, Any] | None, service: str, uid: str) -> KnativeService | None:
    """Read the Knative Service of an InferenceService; None if it is not KServe's, or cannot be read whole."""
    metadata = mapping(mapping(found).get("metadata"))
    targets = mapping(mapping(found).get("spec")).get("traffic")
    known = items(targets)
    is_whole = isinstance(targets, list) and len(known) == len(targets)
    if not is_made_for(metadata, service, uid) or not known or not is_whole:
        return None
    status = mapping(mapping(found).get("status"))
    latest = text(status.get("latestReadyRevisionName"))
    generation = whole(metadata.get("generation"))
    is_of_now = generation is not None and whole(status.get("observedGeneration")) == generation
    return KnativeService(
        text(metadata.get("name")),
        text(metadata.get("resourceVersion")),
        tuple(known),
        template=revision_template(mapping(mapping(found).get("spec")).get("template")),
        latest_ready=latest,
        is_routed=is_of_now and condition_is_true(status, "RoutesReady"),
        is_settled=is_of_now
        and condition_is_true(status, "Ready")
        and text(status.get("latestCreatedRevisionName")) == latest != "",
    )


def revision_template(found: Any) -> RevisionTemplate:
    """Read the template of revisions, or a revision, which has the annotations of the template that it was made of."""
    notes = texts(mapping(mapping(found).get("metadata")).get("annotations"))
    return RevisionTemplate(notes.get(SOURCE_URI, ""), notes.get(RESTORED_AT, ""))


def revision_templates(found: Iterable[Any]) -> dict[str, RevisionTemplate]:
    """Return what revisions serve, by name."""
    return {
        text(mapping(one.get("metadata")).get("name")): revision_template(one) for one in map(mapping, found)
    }


def knative_view(status: Mapping[str, Any], component: Mapping[str, Any], wanted: int | None) -> KnativeView:
    """Read the status and its component `predictor`.

    :param wanted: the percent in the spec.
    """
    targets = component.get("traffic")
    shares, is_whole = _traffic(targets, text(component.get("latestReadyRevision")))
    pending = _route_pending(status, targets, wanted)
    return KnativeView(shares, is_whole, _urls(targets), pending, bool(conditions(status, ROUTE_READY)))


def _traffic(targets: Any, latest_ready: str) -> tuple[dict[str, int], bool]:
    """Sum percents by revision: the same revision may be both `latest` and `prev`. Tell whether that is all.

    It is not where a share cannot be read, or is somebody's that has no name: who has it may be anybody.
    """
    known = items(list(targets) if isinstance(targets, tuple) else targets)
    is_whole = isinstance(targets, list) and len(known) == len(targets)
    shares: dict[str, int] = {}
    for target in known:
        is_latest = target.get("latestRevision") is True
        revision = text(target.get("revisionName")) or (latest_ready if is_latest else "")
        share = target.get("percent")
        is_whole = is_whole and (share is None or is_percent(share)) and bool(revision or not share)
        if revision:
            shares[revision] = shares.get(revision, 0) + (percent(share) or 0)
    return shares, is_whole


def _users(shares: Mapping[str, int]) -> dict[str, int]:
    return {revision: share for revision, share in shares.items() if share}


def _route_pending(status: Mapping[str, Any], targets: Any, wanted: int | None) -> str:
    """Return why the router is not known to do what the traffic says; "" if it is.

    :param wanted: the percent in the spec.
    """
    route_conditions = conditions(status, ROUTE_READY)
    if not route_conditions:
        return (
            f"the status has no condition {ROUTE_READY}, so it is unknown whether the router has applied it"
        )
    for condition in route_conditions:
        if condition.get("status") != "True":
            words = (text(condition.get(key)) for key in ("status", "reason", "message"))
            return f"its route is not ready: {ROUTE_READY} is {': '.join(word for word in words if word).rstrip('.')}"
    if _latest_percent(items(targets)) != (100 if wanted is None else wanted):
        return f"that is older than the spec, which names {'no percent' if wanted is None else f'{wanted} %'}"
    return ""


def _latest_percent(targets: Iterable[Mapping[str, Any]]) -> int:
    return sum(percent(one.get("percent")) or 0 for one in targets if one.get("latestRevision") is True)


def _urls(targets: Any) -> dict[str, str]:
    """Return the URL of each revision that has a tag; KServe tags "latest" where tag routing is enabled, and "prev"."""
    return {
        text(target.get("revisionName")): text(target.get("url"))
        for target in items(targets)
        if target.get("revisionName") and target.get("url")
    }
