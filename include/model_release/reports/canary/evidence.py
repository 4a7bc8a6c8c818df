"""The evidence of a canary: all that the record says of it in one document, enough to judge it again.

The document is JSON: which version, by which policy, and a list of runs, oldest first. A canary that was
begun anew (its task died and was run again) has a judge without memory, so each run is a fold of its own, and
only the last one led to the end.

    {"kind": "canary_evidence", "format_version": 1,
     "model", "version", "release_id", "outcome", "reason", "until",
     "storage_uri", "stable_storage_uri",
     "policy": AnalysisPolicy.to_dict(), "planned": [{"weight", "bake_s"}],
     "exposure": {"candidate_requests", "candidate_errors", "first_bad_at", "weight_0_at",
                  "seconds_from_first_bad_answer_to_weight_0"},
     "runs": [{"number", "superseded", "began_at", "ended_at",
               "weights": [{"at", "weight"}], "steps": […], "windows": […], "decisions": […],
               "totals": {…}, "recomputed": {"agrees", "first_difference"}}]}

A window has a `source`, `users` or `replay` (golden requests, replayed where users sent too little). Totals keep
the two apart: `candidate_requests` are users', `replayed_requests` are not.

Times are ISO 8601 in UTC, percents 0 to 100, latencies ms. What is not known is null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from include.model_release.canary.latency import quantile_ms
from include.model_release.canary.recordings import replay
from include.model_release.canary.verdict_text import duration, is_replay
from include.model_release.document_form import form_of
from include.model_release.metrics.samples import Sample
from include.model_release.record.fold import Event, RecordError, ReleaseState, fold
from include.model_release.spec.rollout.analysis import AnalysisPolicy
from include.model_release.spec.rollout.plan import RolloutStep

FORMAT_VERSION = 1
# The document and the windows of its last run, under the evidence of a release.
DOCUMENT_FILE, WINDOWS_FILE = "canary.json", "canary.jsonl"
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

# How the judge frames the source's own words; judging again frames them again.
_BLIND_FRAME = re.compile(r"\(\d+ in a row\): ")
# Another processor may round the last digits of an exponential otherwise.
_SAME_EVIDENCE = 1e-6


@form_of("the record of the canary", RecordError)
def canary_evidence(
    events: Sequence[Event],
    policy: AnalysisPolicy,
    *,
    release_id: str | None = None,
    planned: Sequence[RolloutStep] = (),
) -> dict[str, Any]:
    """Return the document about one release, by default the newest in the record.

    `events` are all events of the version, those of other releases too. `planned` are the steps of the
    release file, so that those that were not reached are known. Raises RecordError where the record has gaps
    or knows nothing of the release.
    """
    state = _state(events, release_id)
    own = sorted(
        (event for event in events if event.release_id == state.release_id), key=lambda event: event.seq
    )
    runs: list[dict[str, Any]] = []
    for part in _runs(own):
        before = runs[-1]["weights"][-1]["weight"] if runs else 0
        runs.append(_run(len(runs) + 1, part, policy, before))
    for run in runs[:-1]:
        run["superseded"] = True
    return {
        "kind": "canary_evidence",
        "format_version": FORMAT_VERSION,
        "model": state.model,
        "version": state.version,
        "release_id": state.release_id,
        "outcome": state.outcome,
        "reason": state.reason,
        "until": _iso(own[-1].at),
        "storage_uri": state.storage_uri,
        "stable_storage_uri": state.stable_storage_uri,
        "policy": policy.to_dict(),
        "planned": [{"weight": step.weight, "bake_s": step.bake_s} for step in planned],
        "exposure": _exposure(state),
        "runs": runs,
    }


@form_of("the evidence of the canary")
def windows_jsonl(document: Mapping[str, Any], run: int | None = None) -> str:
    """Return the windows of one run (its `number`; None: the last) as the lines that
    `python -m include.model_release.canary` reads; a document without runs gives its policy alone.

    Raises RecordError where there is no such run.
    """
    runs = document["runs"]
    chosen = runs[-1:] if run is None else [known for known in runs if known["number"] == run]
    if run is not None and not chosen:
        raise RecordError(
            f"the evidence of {document['model']} {document['version']} has no run {run}",
            expected=f"a number from 1 to {len(runs)}",
            found=str(run),
        )
    lines = [{"policy": document["policy"]}]
    for known in chosen:
        lines += _recorded(known)
    return "".join(json.dumps(line) + "\n" for line in lines)


@form_of("the evidence of the canary")
def recordings(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what `windows_jsonl` gives of each run, by the name of the file it belongs in, the last run's
    first.
    """
    earlier = [run["number"] for run in document["runs"][:-1]]
    return {
        WINDOWS_FILE: windows_jsonl(document),
        **{earlier_windows_file(number): windows_jsonl(document, number) for number in earlier},
    }


def earlier_windows_file(number: int) -> str:
    """Return where the recording of the earlier run `number` belongs."""
    return f"canary-run-{number}.jsonl"


def latencies_ms(sample: Sample) -> dict[str, Any]:
    """Return p50, p90 and p99 of a sample, None where unknown; `beyond` names those above the last bound."""
    found = {name: quantile_ms(sample.latency_buckets, quantile) for name, quantile in QUANTILES.items()}
    return {
        **{name: None if value is None else value[0] for name, value in found.items()},
        "beyond": [name for name, value in found.items() if value is not None and value[1]],
    }


def share_percent(part: int, whole: int) -> float | None:
    """Return `part` of `whole` in percent; None of nothing."""
    return 100.0 * part / whole if whole else None


# --- which events make a run ---


def _state(events: Sequence[Event], release_id: str | None) -> ReleaseState:
    """Return what the record said when the release `release_id` was the newest."""
    ordered = sorted(events, key=lambda event: event.seq)
    newest = fold(ordered)
    if release_id is None or newest.release_id == release_id:
        return newest
    later = [place for place, event in enumerate(ordered) if event.kind == "release_started" and place > 0]
    for start, end in reversed([*pairwise([0, *later])]):
        if ordered[start].release_id == release_id:
            return fold(ordered[:end])
    raise RecordError(
        f"the record of {newest.model} {newest.version} knows no release {release_id!r}",
        expected=f"one of {', '.join(sorted({event.release_id for event in ordered}))}",
        found=repr(release_id),
    )


def _runs(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Split the events of one release where its canary was begun anew; what comes before the first is left
    out.

    A task that died while it wrote what it had been told writes it again, and a watch that was started anew
    looks at the traffic again: what is no news counts once.
    """
    run: list[Event] | None = None
    seen: set[tuple[str, datetime, str]] = set()
    weight: int | None = None
    for event in events:
        if event.kind == "stage_started" and event.data.get("stage") == "canary":
            if run is not None:
                yield run
            run, seen, weight = [], set(), None
        told = (event.kind, event.at, json.dumps(event.data, sort_keys=True))
        again = event.kind == "weight_observed" and event.data["weight"] == weight
        if run is None or again or told in seen:
            continue
        weight = event.data["weight"] if event.kind == "weight_observed" else weight
        seen.add(told)
        run.append(event)
    if run is not None:
        yield run


# --- one run ---


def _run(number: int, events: Sequence[Event], policy: AnalysisPolicy, weight: int) -> dict[str, Any]:
    """Return one run; `weight` is what the candidate had of the traffic when it began."""
    steps = _steps(events)
    windows = [window for step in steps for window in step.pop("seen")]
    for place, window in enumerate(windows, start=1):
        window["number"] = place
    run = {
        "number": number,
        "superseded": False,
        "began_at": _iso(events[0].at),
        "ended_at": _iso(max(event.at for event in events)),
        "weights": [{"at": _iso(events[0].at), "weight": weight}, *_weights(events)],
        "steps": steps,
        "windows": windows,
        "decisions": _decisions(events),
        "totals": _totals(windows),
    }
    return {**run, "recomputed": _recomputed(run, policy)}


def _steps(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the steps of a run, each with its windows under `seen`."""
    steps: list[dict[str, Any]] = []
    for event in events:
        data = event.data
        if event.kind == "weight_intended" and 0 < data["weight"] < 100:
            steps.append(_new_step(len(steps) + 1, event))
        elif not steps:
            continue
        elif event.kind == "weight_observed" and data["weight"] == steps[-1]["weight"]:
            steps[-1]["observed_at"] = steps[-1]["observed_at"] or _iso(event.at)
        elif event.kind == "window_judged":
            _add_window(steps[-1], event)
        elif event.kind == "step_finished":
            steps[-1].update(
                finished_at=_iso(event.at),
                verdict=data["verdict"],
                reason=data["reason"],
                seconds=data["seconds"],
            )
    return steps


def _new_step(number: int, event: Event) -> dict[str, Any]:
    return {
        "number": number,
        "weight": event.data["weight"],
        "bake_s": None,
        "intended_at": _iso(event.at),
        "observed_at": None,
        "finished_at": None,
        "verdict": None,
        "reason": None,
        "seconds": None,
        "totals": None,
        "blind_windows": 0,
        "seen": [],
    }


def _add_window(step: dict[str, Any], event: Event) -> None:
    verdict = event.data["verdict"]
    statistics = verdict["statistics"]
    step["bake_s"], step["totals"] = statistics["bake_s"], statistics["step"]
    before = step["seen"][-1]["at"] if step["seen"] else step["observed_at"] or step["intended_at"]
    window = {
        "number": 0,
        "step": step["number"],
        "weight": step["weight"],
        "began_at": before,
        "at": _iso(event.at),
        "source": "replay" if is_replay(verdict["window"]) else "users",
        "blind": bool(verdict.get("blind")),
        "status": verdict["status"],
        "reason": verdict["reason"],
        "statistics": statistics,
        "window": verdict["window"],
    }
    if verdict["window"] is None:
        step["blind_windows"] += 1
    else:
        window["began_at"] = _iso(event.at - timedelta(seconds=verdict["window"]["seconds"]))
        window["seen"] = {name: _seen(verdict["window"], name) for name in ("stable", "candidate")}
    step["seen"].append(window)


def _seen(window: Mapping[str, Any], revision: str) -> dict[str, Any]:
    """Return what a reader wants to know of a sample: rates and latencies."""
    sample = Sample.from_dict(window[revision])
    return {
        "error_percent": share_percent(sample.errors, sample.requests),
        "requests_per_second": sample.requests / window["seconds"] if window["seconds"] else None,
        "latency_ms": latencies_ms(sample),
    }


def _weights(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the candidate's percent of the traffic as it was seen, in order of time."""
    seen = [(event.at, event.data["weight"]) for event in events if event.kind == "weight_observed"]
    seen += [(at, 0) for at in _weight_0_told(events)]
    return [{"at": _iso(at), "weight": weight} for at, weight in sorted(seen)]


def _weight_0_told(events: Sequence[Event]) -> list[datetime]:
    """Return when weight 0 was seen, where only the event `rolled_back` tells it."""
    if any(event.kind == "weight_observed" and event.data["weight"] == 0 for event in events):
        return []
    told = [event.data.get("weight_0_at") for event in events if event.kind == "rolled_back"]
    return [datetime.fromisoformat(at).astimezone(UTC) for at in told if at][:1]


def _decisions(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return what was decided and done, in order, each in words and with its reason."""
    found: list[dict[str, Any]] = []
    told = None
    for event in events:
        reason = event.data.get("reason")
        said = _said(event, told)
        told = reason or told
        if said is not None:
            kind, by, words = said
            found.append({"at": _iso(event.at), "kind": kind, "by": by, "words": words, "reason": reason})
    found += [
        {"at": _iso(at), "kind": "weight_0_seen", "by": None, "words": _WEIGHT_0, "reason": None}
        for at in _weight_0_told(events)
    ]
    return sorted(found, key=lambda decision: datetime.fromisoformat(decision["at"]))


_WEIGHT_0 = "No traffic was seen on the candidate any more: users are on the stable version."
_STEP_ENDS = {
    "pass": ("step_passed", "passed"),
    "fail": ("step_failed", "failed"),
    "inconclusive": ("step_undecided", "ended undecided"),
}


def _said(event: Event, told: str | None) -> tuple[str, str | None, str] | None:
    """Return kind, author and words of the decision that an event stands for; None for all else.

    `told` is the reason that was given last; the same is not said twice.
    """
    data = event.data
    match event.kind:
        case "weight_observed" if data["weight"] == 0:
            return "weight_0_seen", None, _WEIGHT_0
        case "weight_observed":
            return "weight_reached", None, f"{data['weight']} % of the traffic was seen on the candidate."
        case "step_finished":
            kind, words = _STEP_ENDS.get(data["verdict"], _STEP_ENDS["inconclusive"])
            watched = f"The step at {data['weight']} % {words} after {duration(data['seconds'])}."
            return kind, "judge", f"{watched} {data['reason']}"
        case "rollback_started" if data["reason"] == told:
            return "rollback_started", data["by"], "For this reason a rollback was begun."
        case "rollback_started":
            return "rollback_started", data["by"], f"A rollback was begun: {data['reason']}"
        case "rolled_back":
            return "rolled_back", None, "The stable version has all traffic again."
        case "promoted":
            return "promoted", None, "The candidate was promoted: it is the stable version now."
        case _:
            return None


def _totals(windows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the judge's last sums over the run, and how many windows of users were judged and blind."""
    sums = windows[-1]["statistics"]["canary"] if windows else {}
    return {
        **{key: value for key, value in sums.items() if key != "windows"},
        "windows": sum(window["source"] == "users" for window in windows),
        "blind_windows": sum(window["blind"] for window in windows),
    }


def _exposure(state: ReleaseState) -> dict[str, Any]:
    """Return what users met: counts from the canary's start until weight 0 was seen, where that is known."""
    return {
        "candidate_requests": state.candidate_requests,
        "candidate_errors": state.candidate_errors,
        "first_bad_at": _iso(state.first_bad_at),
        "weight_0_at": _iso(state.weight_0_at),
        "seconds_from_first_bad_answer_to_weight_0": state.seconds_from_first_bad_answer_to_weight_0,
    }


# --- judging again ---


def _recorded(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of a run's recording; a step that saw no window changes no verdict."""
    lines: list[dict[str, Any]] = []
    step = 0
    for window in run["windows"]:
        if window["step"] != step:
            step = window["step"]
            begun = run["steps"][step - 1]
            lines.append(
                {"at": begun["intended_at"], "step": {"weight": begun["weight"], "bake_s": begun["bake_s"]}}
            )
        if window["window"] is None:
            lines.append({"at": window["at"], "blind": _BLIND_FRAME.split(window["reason"], maxsplit=1)[-1]})
        else:
            lines.append({"at": window["at"], "window": window["window"]})
    return lines


def _recomputed(run: Mapping[str, Any], policy: AnalysisPolicy) -> dict[str, Any]:
    """Judge a run again from its windows alone; say whether every verdict is as recorded, or which is the
    first that is not.
    """
    lines = [json.dumps(line) for line in _recorded(run)]
    again = replay(lines, "the recorded windows", policy)
    for window, (_, verdict) in zip(run["windows"], again, strict=True):
        told = window["statistics"].get("total_evidence", math.nan)
        same = math.isclose(verdict.statistics.total_evidence, told, rel_tol=_SAME_EVIDENCE)
        if verdict.status != window["status"] or not same:
            return {"agrees": False, "first_difference": window["number"]}
    return {"agrees": True, "first_difference": None}


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()
