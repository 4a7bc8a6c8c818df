"""Recordings of a canary: windows as JSON lines, read and judged again.

One JSON object a line; keys beside these are ignored:

    {"policy": {...}}                         first line only, may be left out: an AnalysisPolicy
    {"step": {"weight": 5, "bake_s": 60}}     a step of the canary begins
    {"window": {"seconds": 10, "stable": SAMPLE, "candidate": SAMPLE}}, or the inner object alone;
                                              "source": "replay" where golden requests were replayed
    {"no_data": "why"}                        a window in which the metrics source could not be read
    {"coverage": {"not_seen": ["latency"]}}   what the source of the windows that follow cannot see

    SAMPLE: {"requests": 950, "errors": 4, "latency_buckets": {"5.0": 900, "10.0": 45, "inf": 5}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.verdict import Verdict, words_of
from slipway_core.documents.yaml_source import parse_yaml_mapping
from slipway_core.errors import SlipwayError, UserError
from slipway_core.metrics.samples import Window
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.rollout.analysis import AnalysisPolicy

_ENTRIES = ("policy", "step", "window", "no_data", "coverage")
# Longer than any step is watched.
_LONGEST_S = 1e12
_EXPECTED_LINE = (
    'one JSON object with "step", "window", "no_data" or "coverage" (or "policy" in the first line), '
    'or a bare window with "seconds", "stable" and "candidate"'
)
_EXPECTED_WINDOW = '"seconds", "stable" and "candidate"; both samples with "requests" and "errors"'
_RELEASE_KEYS = {"model", "source", "rollout"}


class ReplayError(UserError):
    """The recorded windows, or the policy to judge them by, cannot be used."""


@dataclass(frozen=True)
class RecordedStep:
    """A step that begins: its weight in percent and its bake in seconds."""

    weight: int
    bake_s: float


@dataclass(frozen=True)
class NoData:
    """A window in which the metrics source could not be read, and why."""

    reason: str


@dataclass(frozen=True)
class Coverage:
    """What the source of the windows that follow cannot see, in words."""

    not_seen: tuple[str, ...]


Entry = AnalysisPolicy | RecordedStep | Window | NoData | Coverage


def replay(
    lines: Iterable[str], source: str, policy: AnalysisPolicy | None = None
) -> Iterator[tuple[AnalysisPolicy, Verdict]]:
    """Yield each verdict on the recorded windows in `lines`, with the policy it was reached by.

    :param source: what an error calls the lines.
    :param policy: stands above one in the first line; without either the defaults hold.
    :raises ReplayError: a line cannot be used; it names the line, what was expected and what was found.
    """
    judge: CanaryJudge | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        with _placed(f"{source}, line {number}"):
            entry = read_entry(line)
            if isinstance(entry, AnalysisPolicy):
                if judge is not None:
                    raise ReplayError(
                        "the policy comes too late", expected="it in the first line, or nowhere"
                    )
                judge = CanaryJudge(policy or entry)
                continue
            judge = judge or CanaryJudge(policy or AnalysisPolicy())
            verdict = _fold(judge, entry)
        if verdict is not None:
            yield judge.policy, verdict


def read_entry(line: str) -> Entry:
    """Return what one line says.

    :raises SlipwayError: it cannot be used; the caller knows which line it is.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ReplayError("this is not JSON", expected=_EXPECTED_LINE, found=_shortened(line)) from error
    named = [name for name in _ENTRIES if name in value] if isinstance(value, dict) else []
    if not named and isinstance(value, dict) and "seconds" in value:
        return _window(value)
    if len(named) != 1:
        found = " and ".join(f'"{name}"' for name in named) or _shortened(line)
        raise ReplayError("this is not a line of a recording", expected=_EXPECTED_LINE, found=found)
    kind, content = named[0], value[named[0]]
    if kind == "no_data":
        return NoData(str(content))
    if not isinstance(content, dict):
        raise ReplayError(
            f'"{kind}" holds no object', expected="a JSON object", found=_shortened(repr(content))
        )
    if kind == "policy":
        return AnalysisPolicy.from_mapping(content)
    if kind == "coverage":
        return _coverage(content)
    return _window(content) if kind == "window" else _step(content)


def read_policy(text: str, name: str) -> AnalysisPolicy:
    """Return the policy of a YAML or JSON text: its keys alone, or a release file with `rollout.analysis`.

    :param name: the name of the file.
    :raises SlipwayError: it cannot be used; it names the file and, where it can, the line.
    """
    # YAML holds nearly all of JSON, but not tabs.
    text = text.replace("\t", " ") if text.lstrip().startswith("{") else text
    data = parse_yaml_mapping(text, name).data
    if _RELEASE_KEYS & set(data):
        return parse_release_spec(text, name).rollout.analysis
    return AnalysisPolicy.from_mapping(data, name)


def _fold(judge: CanaryJudge, entry: RecordedStep | Window | NoData | Coverage) -> Verdict | None:
    if isinstance(entry, Window):
        return judge.observe(entry)
    if isinstance(entry, NoData):
        return judge.observe_failure(entry.reason)
    if isinstance(entry, Coverage):
        judge.not_seen = entry.not_seen
        return None
    judge.begin_step(entry.weight, entry.bake_s)
    return None


def _window(content: dict[str, Any]) -> Window:
    try:
        return Window.from_dict(content)
    except KeyError as error:
        raise ReplayError("a window lacks a key", expected=_EXPECTED_WINDOW, found=f"no {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        found = f"{_shortened(json.dumps(content))} ({error})"
        raise ReplayError("a window cannot be read", expected=_EXPECTED_WINDOW, found=found) from error


def _step(content: dict[str, Any]) -> RecordedStep:
    weight, bake_s = content.get("weight"), content.get("bake_s")
    whole = isinstance(weight, int) and not isinstance(weight, bool) and 0 <= weight <= 100
    numeric = isinstance(bake_s, int | float) and not isinstance(bake_s, bool) and 0 <= bake_s < _LONGEST_S
    if not whole or not numeric:
        raise ReplayError(
            "a step cannot be read",
            expected='"weight", a whole percent from 0 to 100, and "bake_s", seconds, zero or more',
            found=_shortened(json.dumps(content)),
        )
    return RecordedStep(int(weight or 0), float(bake_s or 0.0))


def _coverage(content: dict[str, Any]) -> Coverage:
    try:
        return Coverage(words_of(content["not_seen"]))
    except (KeyError, TypeError) as error:
        raise ReplayError(
            "what the source cannot see cannot be read",
            expected='"not_seen", a list of texts',
            found=_shortened(json.dumps(content)),
        ) from error


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Say in an error where it is."""
    try:
        yield
    except SlipwayError as error:
        raise ReplayError(
            f"{place}: {error.what}", expected=error.expected, found=error.found, remedy=error.remedy
        ) from error


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 80 else f"{text[:77]}…"
