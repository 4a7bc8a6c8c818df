"""What one can want of an InferenceService (goals), and what is to be done about it next (actions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reading import Resource

# How long KServe may take to carry a rollback's weights on, to the HTTPRoutes or to Knative; as a rule it takes less
# than one second.
ROUTES_FOLLOW_S = 3.0
# How long an urgent patch is waited for at first. The API gives KServe's webhooks ten seconds.
FALLBACK_AFTER_S = 3.0

# The phases of a rollback; users are safe when the first is over.
SHIELD, RESTORE, BOOT, RELEASE_TRAFFIC = "shield", "restore", "boot", "release"


@dataclass(frozen=True)
class FirstDeploy:
    """Create the InferenceService from `manifest` and see it take all traffic; there is nothing to compare it
    with.
    """

    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class ShowCandidate:
    """Bring a new revision that serves `uri` up at 0 percent, with its own address: a preview.

    `generation` is the InferenceService's when the release was decided on; a preview that comes late, when somebody
    has changed the spec since, is refused. None begins over whatever is there. `force` as in `StartCanary`.
    """

    uri: str
    release_id: str = ""
    version: int | None = None
    force: bool = False
    generation: int | None = None


@dataclass(frozen=True)
class StartCanary:
    """Give `weight` percent (1 to 99) to a new revision that serves `uri`, or to the preview of it.

    `generation` is the InferenceService's when the canary was decided on: while its preview was looked at, or
    before. A start that comes late, when somebody has changed the spec since (and be it the rollback of this very
    canary), is refused. None starts over whatever is there, but raises no preview. A canary that has a weight
    already is shifted, whatever the generation.

    `force` admits a URI that was rolled back, in the Knative dialect. In the Standard one nothing on the object
    tells of it, so there it makes no difference: the release's record is what refuses such a version.
    """

    uri: str
    weight: int
    release_id: str = ""
    version: int | None = None
    force: bool = False
    generation: int | None = None


@dataclass(frozen=True)
class ShiftWeight:
    """Give the canary under way `weight` percent (1 to 99); `uri`, if given, must be what it serves."""

    weight: int
    uri: str = ""


@dataclass(frozen=True)
class Promote:
    """Give the canary under way all traffic; `uri`, if given, must be what it serves."""

    uri: str = ""


@dataclass(frozen=True)
class RollBack:
    """Bring all traffic back to `stable_uri`. With `candidate_uri`, a spec that names a third URI is left
    alone.

    `unnoted_may_go`: a canary that the controller never took note of may be removed (Standard mode). A controller
    that is merely slow could still lead users to it for a moment, so only who has waited for it may say so. Likewise
    `unseen_may_serve`: a good version that comes back may get its users though nobody may see how many pods it has.
    """

    stable_uri: str
    candidate_uri: str = ""
    unnoted_may_go: bool = False
    unseen_may_serve: bool = False


@dataclass(frozen=True)
class Withdraw:
    """Delete an InferenceService whose first version shall not stay. Only where no earlier version exists to
    go back to.
    """

    uri: str = ""


Goal = FirstDeploy | ShowCandidate | StartCanary | ShiftWeight | Promote | RollBack | Withdraw


@dataclass(frozen=True)
class Create:
    """Create the object `body`; if it exists already (409), look again."""

    body: Mapping[str, Any]
    reason: str
    phase: str = "create"


@dataclass(frozen=True)
class Patch:
    """Send `body` as a JSON merge patch; on 409 somebody was faster: look again, never force.

    `fallback` is what takes users off the bad version where the patch meets an error, if it is known already.
    `is_urgent`: there is, or may be, such a way, so webhooks that hang are not waited for at first.
    """

    body: Mapping[str, Any]
    reason: str
    phase: str
    fallback: PatchMade | None = None
    is_urgent: bool = False


@dataclass(frozen=True)
class Expose:
    """Have the HTTPRoute `body` in the cluster; one of slipway's of the same name is replaced."""

    body: Mapping[str, Any]
    reason: str
    phase: str = "preview"


@dataclass(frozen=True)
class Delete:
    """Delete the object, with `uid` and `resource_version` as preconditions."""

    uid: str
    resource_version: str
    reason: str
    phase: str = "delete"


@dataclass(frozen=True)
class ObjectPatch:
    """A merge patch of the object `name`; it names the resourceVersion that was observed."""

    name: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class PatchMade:
    """Write into objects that KServe has made of the InferenceService and does not change; on 409 look again."""

    resource: Resource
    patches: tuple[ObjectPatch, ...]
    reason: str
    phase: str

    @property
    def what(self) -> str:
        """The name of what is written, for messages."""
        return self.resource.kind if len(self.patches) == 1 else f"{self.resource.kind}s"


@dataclass(frozen=True)
class Wait:
    """Nothing to do but to look again. `failure` says what holds it up, if the cluster says so; `users_safe`
    is about a rollback: no traffic was seen on the bad revision. `fallback` is what to do where it was waited in vain
    for `fallback_after_s` seconds.
    """

    reason: str
    phase: str
    failure: str | None = None
    users_safe: bool = False
    fallback: PatchMade | None = None
    fallback_after_s: float = ROUTES_FOLLOW_S


@dataclass(frozen=True)
class Done:
    """The goal is reached; `traffic` (percent by revision) is what was seen."""

    traffic: Mapping[str, int] = field(default_factory=dict)
    phase: str = "done"
    reason: str = ""


@dataclass(frozen=True)
class Impossible:
    """The goal cannot be reached from here without doing harm; `reason` says why and what to do.

    `kind` is `load_failed` (the new revision does not come up), `setup_failed` (nor would another version, with the
    image, memory and rights that its pods are given), `foreign_change` (someone else is at work),
    `rolled_back` (it has been decided to go back, or the URI was rolled back before), `absent` or
    `not_applicable`. `remedy` is what to do, where more is known than to look at the InferenceService.
    """

    reason: str
    kind: str = "not_applicable"
    phase: str = "impossible"
    remedy: str = ""


Action = Create | Patch | Expose | Delete | Wait | Done | Impossible


def refuse_weight(weight: int) -> Impossible | None:
    """Return why a canary cannot have `weight`; None if it can."""
    if 1 <= weight <= 99:
        return None
    return Impossible(
        f"A canary's weight is 1 to 99 percent, not {weight}; 0 is a rollback and 100 a promotion."
    )


def refuse_raise(goal: StartCanary, observed: Observed) -> Impossible | None:
    """Return why a candidate at percent 0 may not be given its first; None if it is this decision's own preview,
    or its own start.

    Percent 0 marks a rollback too. What tells them apart is in the cluster: a preview and a start note the generation
    that their own patch made, and whoever decides to go back makes another.
    """
    is_previewed = observed.is_preview and goal.generation in (observed.begun_at + 1, observed.generation)
    is_started = observed.is_start and goal.generation in (None, observed.begun_at)
    if is_previewed or is_started:
        return _changed_transformer(observed)
    return Impossible(f"The canary on {observed.name} is being rolled back.", kind="rolled_back")


def refuse_preview(observed: Observed) -> Impossible | None:
    """Return why the candidate that is named is no preview to wait for; None if it is one."""
    if observed.is_preview:
        return _changed_transformer(observed)
    if observed.canary_percent == 0:
        return Impossible(f"The canary on {observed.name} is being rolled back.", kind="rolled_back")
    return Impossible(f"The candidate on {observed.name} has users already.")


def refuse_forward(observed: Observed) -> Impossible | None:
    """Return why a canary under way may not go on; percent 0 has no users, and a raise is `StartCanary`'s."""
    if observed.canary_percent == 0:
        state = "being rolled back"
        if observed.is_preview or observed.is_start:
            state = "only a preview" if observed.is_preview else "not begun yet"
        return Impossible(f"The canary on {observed.name} is {state}.", kind="rolled_back")
    return _changed_transformer(observed)


def _changed_transformer(observed: Observed) -> Impossible | None:
    """Model and transformer are one unit: a canary of the one is no evidence once the other is another one."""
    if not observed.transformer_changed:
        return None
    return Impossible(
        f"The transformer of {observed.name} was changed during the canary. It was left as it is: see who changed "
        "it, and release again.",
        kind="foreign_change",
    )


def refuse_start(goal: StartCanary | ShowCandidate, observed: Observed) -> Impossible | None:
    """Return why this canary may not be begun over what is there, in whatever dialect; None if it may."""
    if goal.generation is not None and goal.generation != observed.generation:
        return Impossible(
            f"{observed.name} was changed since this canary was decided on (generation {observed.generation}, "
            f"then {goal.generation}). See what was changed, and release again.",
            kind="foreign_change",
        )
    if observed.obstacles:
        return Impossible(" ".join(observed.obstacles))
    return None
