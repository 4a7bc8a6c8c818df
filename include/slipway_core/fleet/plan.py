"""What to do next with the servers of a fleet, from what is seen of them.

    prepare → verify → commit → drain → done
        └─────────┴────────┴──→ back → done

Up to the end of `commit` any failure leads back. From `drain` on the fleet has the new version, and nothing leads back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from slipway_core.fleet.outcome import Outcome
from slipway_core.fleet.policy import FleetPolicy

Phase = Literal["prepare", "commit", "drain", "back"]
Act = Literal["prepare", "verify", "commit", "drain", "restore", "clean", "wait", "fence", "enter", "finish"]

# Whoever lists the servers has named none: that says nothing about what they serve.
_NOBODY_ASKED = "no server is listed: none was asked what it serves"


@dataclass(frozen=True)
class ServerView:
    """What is seen of one server.

    :param away_s: for how long it has given no answer; None: it answers, and only then the rest is known, `refusal`
        excepted.
    :param serving: the version that its users get; None: none.
    :param is_prepared: the new version is loaded there, and an alias has been tried with it.
    :param is_verified: what it has loaded is what the others have, and its answers are theirs.
    :param has_old: a version besides the one that it serves is loaded, the new one not counted.
    :param has_new: something of the new version is loaded.
    :param is_unsure: it was asked to give users the new version and has not said that it did: it may do so later.
    :param refusal: what it refuses, or has wrong, or why it could not be fenced; it is not asked again.
    """

    away_s: float | None = None
    serving: int | None = None
    is_prepared: bool = False
    is_verified: bool = False
    has_old: bool = False
    has_new: bool = False
    is_unsure: bool = False
    refusal: str = ""


Views = Mapping[str, ServerView]


@dataclass(frozen=True)
class FleetRun:
    """What a release wants.

    :param before: what each server served before; one that came later is not in it.
    """

    phase: Phase
    version: int
    before: Mapping[str, int | None]

    def had(self, server: str) -> int | None:
        """Return what a server served before."""
        return self.before.get(server)


@dataclass(frozen=True)
class FleetStep:
    """What to do next.

    :param act: on each of `servers`; `enter` writes `phase` down and goes on there; `finish` ends with `outcome`.
    :param reasons: why, where something went wrong.
    """

    act: Act
    servers: tuple[str, ...] = ()
    phase: Phase | None = None
    outcome: Outcome | None = None
    reasons: tuple[str, ...] = ()


def next_step(run: FleetRun, views: Views, policy: FleetPolicy) -> FleetStep:
    """Return what to do next.

    :param views: of all servers that count or want to join, read again.
    """
    if run.phase == "back":
        return _back(run, views, policy)
    if run.phase == "drain":
        return _drain(run, views, policy)
    return _forward(run, views, policy)


def _forward(run: FleetRun, views: Views, policy: FleetPolicy) -> FleetStep:
    if not views:
        return _go_back(["the fleet has no server"])
    refusals = _refusals(views)
    if refusals:
        return _go_back(refusals)
    lost = _lost(views, policy)
    if lost:
        return _without(lost, views, policy)
    here = {name: view for name, view in views.items() if view.away_s is None}
    unprepared = [name for name, view in here.items() if not view.is_prepared]
    due = [name for name, view in here.items() if view.is_verified and view.serving != run.version]
    if run.phase == "commit" and due:  # before whoever has just joined: the others differ until it is done
        return FleetStep("commit", tuple(due))
    if unprepared:
        return FleetStep("prepare", tuple(unprepared))
    if len(here) < len(views):
        return FleetStep("wait")
    unverified = [name for name, view in here.items() if not view.is_verified]
    if unverified:
        return FleetStep("verify", tuple(unverified))
    return FleetStep("enter", phase="commit" if run.phase == "prepare" else "drain")


def _drain(run: FleetRun, views: Views, policy: FleetPolicy) -> FleetStep:
    """Return what is left when all have the version: to unload what was before, and to bring who joins."""
    if not views:
        return FleetStep("finish", outcome="committed", reasons=(_NOBODY_ASKED,))
    here = {name: view for name, view in views.items() if view.away_s is None and not view.refusal}
    late = [name for name, view in here.items() if view.serving != run.version]
    for act, servers in (
        ("commit", [name for name in late if here[name].is_verified]),
        ("prepare", [name for name in late if not here[name].is_prepared]),
        ("verify", [name for name in late if not here[name].is_verified]),
        ("drain", [name for name, view in here.items() if view.has_old]),
    ):
        if servers:
            return FleetStep(act, tuple(servers))  # type: ignore[arg-type]
    lost = _lost(views, policy)
    if policy.on_unreachable == "fence" and len(views) - len(lost) >= policy.least_servers:
        fenceable = {name: why for name, why in lost.items() if not views[name].refusal}
        if fenceable:
            return FleetStep("fence", tuple(fenceable), reasons=tuple(fenceable.values()))
    if any(view.away_s is not None and name not in lost for name, view in views.items()):
        return FleetStep("wait")
    return FleetStep("finish", outcome="committed", reasons=(*_refusals(views), *lost.values()))


def _back(run: FleetRun, views: Views, policy: FleetPolicy) -> FleetStep:
    if not views and run.before:
        return FleetStep("finish", outcome="failed", reasons=(_NOBODY_ASKED,))
    here = {name: view for name, view in views.items() if view.away_s is None and not view.refusal}
    # A server carries out loads in turn: what leads it back comes after what it was asked for.
    changed = [name for name, view in here.items() if view.serving != run.had(name) or view.is_unsure]
    if changed:
        return FleetStep("restore", tuple(changed))
    loaded = [name for name, view in here.items() if view.has_new and run.had(name) != run.version]
    if loaded:
        return FleetStep("clean", tuple(loaded))
    if any(view.away_s is not None and view.away_s < policy.settle_limit_s for view in views.values()):
        return FleetStep("wait")
    refusals = _refusals(views)
    away = [_away(name, view) for name, view in views.items() if view.away_s is not None]
    return FleetStep("finish", outcome="failed" if refusals else "taken_back", reasons=(*refusals, *away))


def _without(lost: Mapping[str, str], views: Views, policy: FleetPolicy) -> FleetStep:
    left = len(views) - len(lost)
    if policy.on_unreachable == "fail":
        return _go_back(lost.values())
    if left < policy.least_servers:
        few = f"{left} servers would be left, fewer than {policy.least_servers}"
        return _go_back([*lost.values(), few])
    return FleetStep("fence", tuple(lost), reasons=tuple(lost.values()))


def _go_back(reasons: Iterable[str]) -> FleetStep:
    return FleetStep("enter", phase="back", reasons=tuple(reasons))


def _refusals(views: Views) -> list[str]:
    return [f"{name}: {view.refusal}" for name, view in views.items() if view.refusal]


def _lost(views: Views, policy: FleetPolicy) -> dict[str, str]:
    """Return the servers that have not answered for too long, and what is said of each."""
    return {
        name: _away(name, view)
        for name, view in views.items()
        if view.away_s is not None and view.away_s >= policy.unreachable_s
    }


def _away(name: str, view: ServerView) -> str:
    return f"{name}: no answer for {view.away_s:.0f} s"
