"""From weight 0 to nobody: what is still open on the candidate when no new request is led there, and how it ends.

Weight 0 is about new requests. A stream that is open stays on the server that it began on, and a data plane may follow
a route some seconds after it was accepted. So the candidate is watched from weight 0 on:

    drain = Drain(drain_s=30, weight_0_s=now)
    step = drain.next(look)              # Watch, EndPods or Drained

- *Counted.* The router says that no request is open, and that none has begun for `QUIET_S`: nobody is on it.
- *Ended.* After `drain_s` its pods are ended, whoever is on them then. Once they are gone nobody is on it, unless the
  router still counts requests there: those go to pods that replace them, and that is said.
- *Not seen.* Without a count, and where the pods cannot be seen or do not go, nobody knows. That is said, and no more.

Pods are never ended before `SETTLE_S`. Without a count this is an assumption about the data plane: that it has followed
by then (two seconds were measured, docs/canary.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from slipway_core.rollout.fields import mapping, text, texts

QUIET_S = 2.0
SETTLE_S = 3.0
# What an ended pod has between SIGTERM and SIGKILL, and how long all of them may take to go.
POD_GRACE_S = 5
GONE_LIMIT_S = 30.0
# Where no pod was ever seen there is nothing more to wait for, but a count that comes late.
UNSEEN_LIMIT_S = 5.0
# A count that is older says nothing of now.
FRESH_S = 5.0

# KServe's labels: of all pods of an InferenceService; of a Knative revision's; of a Deployment's in Standard mode.
SERVICE_LABEL = "serving.kserve.io/inferenceservice"
REVISION_LABEL = "serving.knative.dev/revision"
APP_LABEL, APP_PREFIX = "app", "isvc."
SOURCE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"

HowDrained = Literal["counted", "pods_ended", "still_asked", "unseen"]


@dataclass(frozen=True)
class ServingPod:
    """A pod that serves a revision; `source_uri` is what it serves, "" if it does not tell."""

    name: str
    uid: str
    revision: str
    source_uri: str = ""


def serving_pods(pods: Iterable[Mapping[str, Any]]) -> tuple[ServingPod, ...]:
    """Read the pods of an InferenceService; those that tell no revision have none ("")."""
    found = []
    for pod in pods:
        metadata = mapping(pod.get("metadata"))
        labels = texts(metadata.get("labels"))
        app = labels.get(APP_LABEL, "")
        revision = labels.get(REVISION_LABEL, "") or (
            app.removeprefix(APP_PREFIX) if app.startswith(APP_PREFIX) else ""
        )
        source = texts(metadata.get("annotations")).get(SOURCE_URI, "")
        found.append(ServingPod(text(metadata.get("name")), text(metadata.get("uid")), revision, source))
    return tuple(found)


@dataclass(frozen=True)
class OpenRequests:
    """What the router counts of a revision, at a moment by its own clock: requests that are open, and all that have
    begun.
    """

    at: float
    active: int
    begun: int


@dataclass(frozen=True)
class Look:
    """What was seen at `at_s`; None: it could not be seen.

    :param count: the newest count from after weight 0, `count_age_s` old.
    :param pods: all pods of the InferenceService.
    """

    at_s: float
    count: OpenRequests | None = None
    count_age_s: float = 0.0
    pods: tuple[ServingPod, ...] | None = None


@dataclass(frozen=True)
class Watch:
    """Look again. `may_remove`: what serves the candidate may be taken away, by whoever is about to."""

    may_remove: bool = False


@dataclass(frozen=True)
class EndPods:
    """End these pods, after one more look at the route."""

    pods: tuple[ServingPod, ...]


@dataclass(frozen=True)
class Drained:
    """How it ended, after so many seconds from weight 0; `active` is the last count of open requests, None: none."""

    how: HowDrained
    seconds: float
    active: int | None = None

    @property
    def is_nobody(self) -> bool:
        """Whether nobody is on the candidate, as far as it was seen."""
        return self.how in ("counted", "pods_ended")


class Drain:
    """Say what to do next about what is open on the candidate; the module's docstring has the rules.

    :param revision: the candidate's.
    :param candidate_uri: what it serves; a pod that serves something else is not the candidate's.
    :param drain_s: how long streams may take to end by themselves.
    :param weight_0_s: when weight 0 was seen, by the clock of every look.
    """

    def __init__(self, *, revision: str, candidate_uri: str, drain_s: float, weight_0_s: float) -> None:
        self._revision, self._uri = revision, candidate_uri
        self._weight_0_s = weight_0_s
        self._end_from_s = weight_0_s + max(drain_s, SETTLE_S)
        self._known: frozenset[str] = frozenset()
        self._are_gone = False
        self._ended_at_s: float | None = None
        self._quiet_since: OpenRequests | None = None
        self._count: OpenRequests | None = None

    def next(self, look: Look) -> Watch | EndPods | Drained:
        """Return what to do after a look."""
        is_counted = look.count is not None and look.count_age_s <= FRESH_S
        if is_counted:
            assert look.count is not None  # noqa: S101  asked above
            if self._is_quiet(look.count):
                return self._end("counted", look)
        present = self._present(look)
        if self._are_gone and not is_counted:
            return self._end("pods_ended", look)
        if look.at_s >= self._limit_s:
            return self._end("still_asked" if is_counted else "unseen", look)
        if present and look.at_s >= self._end_from_s and self._is_time_to_end(look.at_s):
            self._ended_at_s = look.at_s
            self._known |= {one.uid for one in present}
            return EndPods(present)
        return Watch(may_remove=look.at_s >= self._end_from_s)

    @property
    def _limit_s(self) -> float:
        return self._end_from_s + (GONE_LIMIT_S if self._known else UNSEEN_LIMIT_S)

    def _is_time_to_end(self, now_s: float) -> bool:
        return self._ended_at_s is None or now_s - self._ended_at_s > POD_GRACE_S

    def _is_quiet(self, count: OpenRequests) -> bool:
        """Return whether nothing is open, and nothing has begun between two counts that lie far enough apart."""
        self._count = count
        since = self._quiet_since
        if count.active or since is None or count.begun != since.begun:
            self._quiet_since = None if count.active else count
            return False
        return count.at - since.at >= QUIET_S

    def _present(self, look: Look) -> tuple[ServingPod, ...]:
        """Return the candidate's pods of weight 0 that are there; take note whether they are gone.

        Where none of the candidate's was ever seen, that pods of other revisions are shows that one would be.
        """
        if look.pods is None:
            self._are_gone = False
            return ()
        named = tuple(one for one in look.pods if one.revision == self._revision)
        own = tuple(one for one in named if one.source_uri in ("", self._uri))
        if not self._known:
            self._known = frozenset(one.uid for one in own)
        if self._known:
            present = own if self._ended_at_s is None else tuple(one for one in own if one.uid in self._known)
            self._are_gone = not any(one.uid in self._known for one in own)
            return present
        is_known = all(one.revision for one in look.pods)
        self._are_gone = bool(look.pods) and is_known and not named
        return ()

    def _end(self, how: HowDrained, look: Look) -> Drained:
        active = self._count.active if self._count is not None and look.count_age_s <= FRESH_S else None
        return Drained(how, max(look.at_s - self._weight_0_s, 0.0), active)


def drain_summary(drained: Drained) -> str:
    """Return a sentence on the candidate's open requests once it receives no new ones."""
    after = f"{drained.seconds:.0f} s after weight 0"
    match drained.how:
        case "counted":
            return f"The candidate has no users: {after} the router counted no open requests and no new ones."
        case "pods_ended":
            return f"The candidate has no users: {after} its pods were gone. Open requests were not counted."
        case "still_asked":
            count = "requests" if drained.active is None else f"{drained.active:,} open requests"
            return f"The candidate still has users: {after} the router counts {count} there, or new ones."
        case "unseen":
            return (
                f"Whether the candidate still has users is unknown, up to {after}: the router's count of "
                "open requests was not read, and its pods were not seen to end."
            )


def recorded_drain_summary(how: str | None, seconds: float | None, active: int | None) -> str:
    """Return that sentence from a record's fields; "" if they hold no known value."""
    for known in get_args(HowDrained):
        if how == known and seconds is not None:
            return drain_summary(Drained(known, seconds, active))
    return ""
