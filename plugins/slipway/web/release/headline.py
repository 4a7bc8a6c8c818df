"""Where a release stands, in one sentence and one word for its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipway_core.read_model.documents import OpenRelease, VersionLine
from slipway_core.read_model.live import LiveDocument
from slipway_core.record.stage_names import ASKED_BEFORE, stage_name
from slipway_core.written_numbers import counted

Kind = Literal["busy", "warn", "bad", "good", ""]

_VERDICTS = {
    "pass": "The judge sees no harm so far",
    "fail": "The judge sees harm",
    "inconclusive": "Not enough data yet",
}
_BY = {
    "judge": "by the judge",
    "guard": "by the guard, because the lease was not renewed",
    "task failure": "because a task failed",
    "cancellation": "because the release was stopped",
    "a person": "by a person",
}


@dataclass(frozen=True)
class Headline:
    """What the top of the page says.

    :param word: the state, in a word or two.
    :param sentence: one sentence.
    :param reason: more, from the record; "" where there is nothing.
    """

    kind: Kind
    word: str
    sentence: str
    reason: str = ""


def headline(line: VersionLine, now: OpenRelease | None, live: LiveDocument | None) -> Headline:
    """Return what the top of the page says.

    :param line: the version.
    :param now: where its release stands; None where it is over.
    :param live: what the watch of this release wrote last.
    """
    if now is None:
        return _ended(line)
    share = now.weight_observed if now.weight_observed is not None else now.weight_intended
    users = "no users" if not share else f"{share} % of the users"
    name = f"Version {now.version}"
    # The watch takes users off before it tells the record.
    if now.rolling_back or (live is not None and live.decision == "roll_back"):
        sentence = f"Users are being moved off version {now.version}."
        return Headline("bad", "going back", sentence, line.reason or _why(live))
    if now.is_rollback:
        to = "an earlier version" if now.stable_version is None else f"version {now.stable_version}"
        if now.waits_for_approval:
            return Headline(
                "warn", "needs a person", f"The rollback to {to} needs another person's approval."
            )
        return Headline(
            "busy", "rollback", f"All users are being moved back from version {now.version} to {to}."
        )
    if now.waits_for_approval:
        before = "its first users" if now.waits_for_approval == "canary" else "all users"
        return Headline("warn", "needs a person", f"{name} needs approval before it gets {before}.")
    paused = live.paused if live is not None else now.paused
    if paused:
        return Headline("warn", "paused", f"{name} stays at {share or 0} %: paused by a person.", paused)
    if now.held:
        return Headline("warn", "held", f"{name} has {users} and is not raised further.", now.held)
    if live is not None and live.waiting:
        waits_for = "its next weight" if live.weights else "its pods"
        return Headline("busy", "coming up", f"{name} has {users}: it waits for {waits_for}.", live.waiting)
    if share:
        return Headline("busy", "canary", f"{name} has {users}. {_judged(now, live)}.", _why(live))
    if not now.stage:
        return Headline(
            "busy", "under way", f"The release of version {now.version} is starting. It has no users."
        )
    return Headline("busy", "under way", f"Current stage: {stage_name(now.stage)}. {name} has no users.")


def _judged(now: OpenRelease, live: LiveDocument | None) -> str:
    verdict = live.verdict if live is not None and live.verdict else now.verdict
    return _VERDICTS.get(verdict, "The judge has no data yet")


def _why(live: LiveDocument | None) -> str:
    return "" if live is None else live.reason


def _ended(line: VersionLine) -> Headline:
    name = f"Version {line.version}"
    if line.unreadable:
        return Headline(
            "bad", "cannot be read", f"The record of version {line.version} cannot be read.", line.unreadable
        )
    if line.rejected_only:
        reason = "" if line.rejection is None else line.rejection.sentence
        return Headline("warn", "rejected", f"{name} was rejected before it was released.", reason)
    if line.outcome == "promoted":
        approved = ", ".join(dict.fromkeys(one.by for one in line.approvals))
        by = f"; approved by {approved}" if approved else ""
        return Headline("good", "promoted", f"{name} was promoted: it got all users{by}.", line.reason)
    if line.outcome == "rolled_back":
        by = _BY.get(line.rolled_back_by, f"by {line.rolled_back_by}" if line.rolled_back_by else "")
        return Headline("bad", "rolled back", f"{name} was rolled back {by}".rstrip() + ".", line.reason)
    if line.outcome == "refused" and line.refused_by in ASKED_BEFORE:
        before = ASKED_BEFORE[line.refused_by]
        return Headline(
            "warn", "declined", f"{name} was declined before the {before}. {_met(line)}", line.reason
        )
    if line.outcome == "refused":
        gate = f" by {stage_name(line.refused_by)}" if line.refused_by else ""
        return Headline("warn", "refused", f"{name} was refused{gate}. {_met(line)}", line.reason)
    if line.outcome == "cancelled":
        return Headline(
            "", "stopped", f"The release of version {line.version} was stopped. {_met(line)}", line.reason
        )
    if line.outcome == "failed":
        return Headline(
            "bad", "failed", f"The release of version {line.version} failed. {_met(line)}", line.reason
        )
    return Headline("busy", "under way", f"The release of version {line.version} is under way.", line.reason)


def _met(line: VersionLine) -> str:
    return (
        "It has had no users."
        if not line.candidate_requests
        else f"It answered {counted(line.candidate_requests, 'request')}."
    )
