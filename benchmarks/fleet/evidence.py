"""What was seen of one release of a fleet, and what must hold of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.plan import OF_A_SERVER, Plan
from benchmarks.fleet.window import MixedWindow, mixed_version_window

PATIENCE_S = 0.5
"""How long after a server is back its clients' connections may take until they are, too."""

ENDED = ("committed", "taken_back")

_SHOWN = 3


@dataclass(frozen=True)
class Excuse:
    """From when to when (unix seconds) requests to a server fail also where nobody releases anything: it was dead, or
    hung. A request is excused that was under way or was sent then.

    A killed server is back when it serves the fleet's version again.
    """

    server: str
    begin: float
    end: float

    def holds_for(self, answer: FleetAnswer) -> bool:
        """Tell whether the answer is excused."""
        return (
            answer.server == self.server
            and answer.received >= self.begin
            and answer.sent <= self.end + PATIENCE_S
        )


@dataclass
class Evidence:
    """All that was seen of one run.

    :param before: the version that all servers had.
    :param target: the version that was released.
    :param outcomes: what the controller said of each of its runs, in order; `killed` where it was, `raised` where it
        ended with an error, `hung` where it did not end.
    :param not_counted: servers that the controller said do not count any more, and why.
    :param answers: of all servers, from a little before the release until all was at rest.
    :param after: those of them that were asked for when all was at rest.
    :param loaded: for each server the versions that it has ready, by model, when all was at rest; None: no answer.
    :param died: servers whose process has ended though nobody killed it, with the end of their log.
    :param crashed: whether the stalled server crashed when it went on, as it does without a release too.
    :param happened: whether the fault took place: a release may have ended before its step, or not have the step.
    """

    plan: Plan
    before: int
    target: int
    servers: Sequence[str]
    outcomes: list[str] = field(default_factory=list)
    not_counted: Mapping[str, str] = field(default_factory=dict)
    answers: Sequence[FleetAnswer] = ()
    after: Sequence[FleetAnswer] = ()
    loaded: Mapping[str, Mapping[str, Sequence[int]] | None] = field(default_factory=dict)
    died: Mapping[str, str] = field(default_factory=dict)
    excuses: Sequence[Excuse] = ()
    happened: bool = False
    crashed: bool = False
    finished: bool = True
    seconds: float = 0.0
    prepare_s: float = 0.0
    commit_ms: float = 0.0
    reasons: Sequence[str] = ()

    @property
    def counting(self) -> list[str]:
        """The servers that count."""
        return [one for one in self.servers if one not in self.not_counted]

    @property
    def outcome(self) -> str:
        """What the controller said at last."""
        return self.outcomes[-1] if self.outcomes else "nothing"

    @property
    def settled(self) -> int:
        """The version that all must have by what the controller said."""
        return self.target if self.outcome == "committed" else self.before

    @property
    def window(self) -> MixedWindow:
        """How long the servers that count answered differently; answers that are excused do not count."""
        counted = [
            one
            for one in self.answers
            if one.server in self.counting and not any(excuse.holds_for(one) for excuse in self.excuses)
        ]
        return mixed_version_window(counted, self.before, self.settled)

    def failed(self) -> tuple[list[FleetAnswer], int]:
        """Return the requests that failed without an excuse, and how many failed with one."""
        bad = [one for one in self.answers if one.error is not None]
        kept = [one for one in bad if not any(excuse.holds_for(one) for excuse in self.excuses)]
        return kept, len(bad) - len(kept)


def violations(seen: Evidence) -> list[str]:
    """Return every promise that was broken, in words; nothing where all were kept."""
    died = [f"{server} died: {log}" for server, log in seen.died.items()]
    return [*died, *_ended(seen), *_one_version(seen), *_alike(seen), *_counting(seen), *_requests(seen)]


def _ended(seen: Evidence) -> list[str]:
    found = []
    if not seen.finished:
        found.append("the release has not ended in time")
    if seen.outcome not in ENDED:
        found.append(f"the release ended {' → '.join(seen.outcomes) or 'without a word'}")
    return found


def _one_version(seen: Evidence) -> list[str]:
    """Whoever asks a server that counts is answered by the version that the controller said, over both protocols."""
    found = []
    for server in seen.counting:
        for protocol in ("http", "grpc"):
            own = [one for one in seen.after if (one.server, one.protocol) == (server, protocol)]
            versions = sorted({one.version for one in own if one.version is not None})
            if versions != [seen.settled]:
                answered = ", ".join(map(str, versions)) or "nothing"
                found.append(
                    f"{server} answers {answered} over {protocol}, not {seen.settled} ({seen.outcome})"
                )
    return found


def _alike(seen: Evidence) -> list[str]:
    """What is loaded is the same on all servers that count."""
    kinds: dict[str, list[str]] = {}
    for server in seen.counting:
        loaded = seen.loaded.get(server)
        loaded_words = (
            "no answer" if loaded is None else str({name: list(found) for name, found in loaded.items()})
        )
        kinds.setdefault(loaded_words, []).append(server)
    if len(kinds) == 1 and "no answer" not in kinds:
        return []
    return [f"{', '.join(servers)}: {loaded_words} is loaded" for loaded_words, servers in kinds.items()]


def _counting(seen: Evidence) -> list[str]:
    """No server is left out but the one that something happened to."""
    allowed = {seen.servers[seen.plan.server]} if seen.plan.kind in OF_A_SERVER and seen.happened else set()
    return [
        f"{server} does not count: {why}" for server, why in seen.not_counted.items() if server not in allowed
    ]


def _requests(seen: Evidence) -> list[str]:
    found = []
    kept, _ = seen.failed()
    if kept:
        shown = [(one.server, one.protocol, round(one.sent, 2), one.error) for one in kept[:_SHOWN]]
        found.append(f"{len(kept)} requests failed: {shown}")
    false = [one for one in seen.answers if not one.tells_true]
    if false:
        shown_false = [(one.server, one.protocol, one.version, one.reported) for one in false[:_SHOWN]]
        found.append(
            f"{len(false)} answers reported another version than the one that made them: {shown_false}"
        )
    strangers = sorted(
        {one.version or 0 for one in seen.answers if one.error is None} - {seen.before, seen.target}
    )
    if strangers:
        found.append(f"answers of the versions {strangers}, which nobody released")
    return found
