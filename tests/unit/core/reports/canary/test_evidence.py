from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.metrics.samples import Sample, Window
from slipway_core.record.events import RecordError
from slipway_core.record.kinds import (
    StageFinished,
    StageStarted,
    WeightIntended,
    WeightObserved,
    WindowJudged,
)
from slipway_core.reports.canary.document import CanaryEvidence, CanaryRun, Recomputed
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.recording import recordings, windows_jsonl
from slipway_core.reports.canary.timeline import TimeAxis, points_of
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.plan import RolloutStep
from slipway_sandbox.lab.simulation.recorded_canary import STABLE_URI, STEPS, Story, Traffic

_SHORT = (RolloutStep(weight=5, bake_s=30), RolloutStep(weight=50, bake_s=30))


def good() -> Story:
    story = Story()
    assert story.canary(Traffic()) == "advance"
    story.promote()
    return story


def partly_seen() -> Story:
    """By a metrics source that does not see everything, which each pass says."""
    story = Story(not_seen=("errors inside streams", "latency"))
    assert story.canary(Traffic()) == "advance"
    story.promote()
    return story


def failing() -> Story:
    story = Story()
    assert story.canary(Traffic(candidate_errors=0.05, bad_after_s=150)) == "roll_back"
    story.restore()
    return story


def slow() -> Story:
    story = Story(AnalysisPolicy(latency_ceiling_ms=100, error_ceiling_percent=10))
    assert story.canary(Traffic(slower=2.0)) == "roll_back"
    story.restore()
    return story


def without_data() -> Story:
    """Without data in the first window, for two in a row, and after that until it is given up."""
    story = Story()
    assert story.canary(Traffic(no_data_s=[(0, 20), (60, 81), (200, 9999)])) == "roll_back"
    story.restore()
    return story


def begun_anew() -> Story:
    """The task died in the second step; its second try began at the first step with a judge of its own."""
    story = Story()
    assert story.canary(Traffic(seed=2), windows=15) == "died"
    assert story.canary(Traffic(seed=3)) == "advance"
    story.promote()
    return story


def golden_replays() -> Story:
    """Hardly any users: each step rests on replayed golden requests."""
    story = Story()
    assert (
        story.canary(
            Traffic(rps=0.2), _SHORT, replays=Traffic(rps=10, seed=8), on_inconclusive="golden_replay"
        )
        == "advance"
    )
    story.promote()
    return story


def failing_replays() -> Story:
    story = Story()
    replays = Traffic(rps=10, candidate_errors=0.3, seed=9)
    assert (
        story.canary(Traffic(rps=0.2), _SHORT, replays=replays, on_inconclusive="golden_replay")
        == "roll_back"
    )
    story.restore()
    return story


STORIES: list[Callable[[], Story]] = [
    good,
    partly_seen,
    failing,
    slow,
    without_data,
    begun_anew,
    golden_replays,
    failing_replays,
]


def document_of(story: Story, **more: Any) -> dict[str, Any]:
    """The document, as it is read back from JSON."""
    found = canary_evidence(story.events, story.policy, **more).to_document()
    return dict(json.loads(json.dumps(found, allow_nan=False)))


def read_back(story: Story) -> CanaryEvidence:
    """The evidence, as it is read back from the store."""
    return CanaryEvidence.from_document(document_of(story))


def only_run(story: Story) -> CanaryRun:
    """The only run of the evidence."""
    (run,) = read_back(story).runs
    return run


# --- every verdict again ---


@pytest.mark.parametrize("told", STORIES)
def test_the_program_gives_every_verdict_of_the_record_again(
    told: Callable[[], Story], tmp_path: Path
) -> None:
    """From the document alone, the program finds status, reason and statistics of every verdict, run by run."""
    story = told()
    recorded = [event.data.verdict for event in story.events if event.kind == "window_judged"]
    document = document_of(story)
    again = []
    for run in document["runs"]:
        path = tmp_path / "windows.jsonl"
        path.write_text(windows_jsonl(CanaryEvidence.from_document(document), run["number"]))
        ran = subprocess.run(
            [sys.executable, "-m", "slipway_core.canary", str(path)], capture_output=True, text=True
        )
        assert ran.stderr == ""
        again += [json.loads(line) for line in ran.stdout.splitlines()]
    assert again == recorded
    assert len(recorded) > 5
    assert all(run["recomputed"] == {"agrees": True, "first_difference": None} for run in document["runs"])


def test_a_window_without_data_after_a_fail_is_computed_again() -> None:
    """A condemned candidate stays so while the source is away, and that verdict comes out again too."""
    story = Story()
    judge = CanaryJudge(story.policy)
    judge.begin_step(5, 30)
    story.tell(StageStarted(stage="canary"))
    story.tell(WeightIntended(weight=5, storage_uri="s3://b/3", stable_storage_uri=STABLE_URI))
    awful = Window(10, Sample(950, 0), Sample(50, 50))
    for verdict in (judge.observe(awful), judge.observe(awful), judge.observe_failure("away")):
        story.tell(
            WindowJudged(
                verdict=verdict.to_dict(), candidate_requests=0, candidate_errors=0, first_bad_at=None
            )
        )
    windows = document_of(story)["runs"][0]["windows"]
    assert [(window["status"], window["no_data"]) for window in windows[1:]] == [
        ("fail", False),
        ("fail", True),
    ]
    assert document_of(story)["runs"][0]["recomputed"]["agrees"]


def test_a_window_that_was_changed_is_found() -> None:
    """Where a recorded window does not lead to its recorded verdict, the document says which is the first."""
    story = good()
    events = copy.deepcopy(story.events)
    judged = [event for event in events if event.kind == "window_judged"]
    judged[6].data.verdict["window"]["candidate"]["errors"] += 1
    run = canary_evidence(events, story.policy).runs[0]
    assert run.recomputed == Recomputed(agrees=False, first_difference=7)


def test_another_policy_is_found() -> None:
    """Judged by a policy that was not the canary's, the verdicts come out otherwise, and the document says so."""
    run = canary_evidence(good().events, AnalysisPolicy(error_margin_percent=20.0)).runs[0]
    assert run.recomputed == Recomputed(agrees=False, first_difference=1)


def test_a_record_without_sources_is_one_of_users() -> None:
    """Windows that were recorded before there were replays are users', and lead to the verdicts recorded then."""
    story = good()
    for event in (one for one in story.events if one.kind == "window_judged"):
        del event.data.verdict["window"]["source"]
    (run,) = document_of(story)["runs"]
    assert {window["source"] for window in run["windows"]} == {"users"}
    assert run["recomputed"]["agrees"]


# --- what the document says ---


def test_replays_stand_apart_from_users() -> None:
    """Each window has its source; what users met is told without what was replayed."""
    story = golden_replays()
    document = document_of(story)
    [run] = document["runs"]
    replayed = [window for window in run["windows"] if window["source"] == "replay"]
    users = [window for window in run["windows"] if window["source"] == "users"]
    assert replayed != []
    met = sum(window["window"]["candidate"]["requests"] for window in users)
    assert document["exposure"]["candidate_requests"] == run["totals"]["candidate_requests"] == met
    assert run["totals"]["replayed_requests"] == sum(
        window["window"]["candidate"]["requests"] for window in replayed
    )
    assert run["totals"]["windows"] == len(users)
    assert "replayed golden requests" in run["steps"][0]["reason"]


def test_replays_are_not_drawn_as_traffic() -> None:
    """The charts' points are users' alone; the axis knows when there were replays beside them."""
    run = only_run(golden_replays())
    axis = TimeAxis.of(run)
    points, _ = points_of(run.windows, axis)
    assert sum(point.candidate.requests for point in points) == run.totals.candidate_requests
    assert len(axis.replayed_s) >= 1


def test_the_document_tells_steps_windows_and_decisions() -> None:
    """Every step, window and decision of a good canary is there, in order, with times and reasons."""
    story = good()
    document = document_of(story, planned=STEPS)
    (run,) = document["runs"]
    assert (document["model"], document["version"], document["outcome"]) == ("digits", 3, "promoted")
    assert [step["weight"] for step in document["planned"]] == [5, 25, 50, 99]
    assert [(step["weight"], step["bake_s"], step["verdict"]) for step in run["steps"]] == [
        (step.weight, step.bake_s, "pass") for step in STEPS
    ]
    assert [weight["weight"] for weight in run["weights"]] == [0, 5, 25, 50, 99, 100]
    assert [decision["kind"] for decision in run["decisions"]] == [
        *(["weight_reached", "step_passed"] * 4),
        "weight_reached",
        "promoted",
    ]
    assert [window["number"] for window in run["windows"]] == [*range(1, 55)]
    assert run["totals"]["windows"] == 54
    assert run["totals"]["candidate_requests"] == sum(
        window["window"]["candidate"]["requests"] for window in run["windows"]
    )
    times = [decision["at"] for decision in run["decisions"]]
    assert times == sorted(times)


def test_a_window_tells_what_was_seen() -> None:
    """A window has its time, both samples, rates, quantiles, verdict and statistics; one without data its reason."""
    document = document_of(without_data())
    windows = document["runs"][0]["windows"]
    first, seen = windows[0], windows[2]
    assert (first["no_data"], first["window"]) == (True, None)
    assert "connection refused" in first["reason"]
    sample = seen["window"]["candidate"]
    assert seen["seen"]["candidate"]["error_percent"] == pytest.approx(
        100 * sample["errors"] / sample["requests"]
    )
    assert seen["seen"]["stable"]["requests_per_second"] == seen["window"]["stable"]["requests"] / 10
    quantiles = seen["seen"]["stable"]["latency_ms"]
    assert 5 < quantiles["p50"] < quantiles["p90"] < quantiles["p99"] < 100
    assert seen["statistics"]["threshold"] == 100
    assert seen["began_at"] < seen["at"] < windows[3]["at"]


def test_a_rollback_tells_who_when_and_why() -> None:
    """The judge's fail, the rollback and weight 0 are told in order, the reason once."""
    document = document_of(failing())
    decisions = document["runs"][0]["decisions"]
    assert [decision["kind"] for decision in decisions[-4:]] == [
        "step_failed",
        "rollback_started",
        "weight_0_seen",
        "rolled_back",
    ]
    assert decisions[-3]["by"] == "judge"
    assert sum("fails more often" in decision["words"] for decision in decisions) == 1
    assert document["exposure"]["weight_0_at"] == decisions[-2]["at"]
    assert document["exposure"]["seconds_from_first_bad_answer_to_weight_0"] > 0


def test_a_rollback_by_others_tells_when_weight_0_was_seen() -> None:
    """Where only the last event knows when users were safe, that time is in the decisions and the weights."""
    story = Story()
    story.canary(Traffic(), windows=3)
    story.restore("cancellation", "the run was stopped")
    (run,) = document_of(story)["runs"]
    told = {decision["kind"]: decision for decision in run["decisions"]}
    assert told["rollback_started"]["words"] == "A rollback was started: the run was stopped"
    assert told["rollback_started"]["by"] == "cancellation"
    assert run["weights"][-1] == {"at": told["weight_0_seen"]["at"], "weight": 0}
    assert told["weight_0_seen"]["at"] < told["rolled_back"]["at"]
    assert run["steps"][0]["verdict"] is None


def test_a_canary_begun_anew_has_a_run_for_each_judge() -> None:
    """The runs are apart: the first is superseded, the second begins at the weight that the first had."""
    evidence = read_back(begun_anew())
    first, second = document_of(begun_anew())["runs"]
    assert (first["superseded"], second["superseded"]) == (True, False)
    assert len(first["windows"]) == 15
    assert second["weights"][0]["weight"] == first["weights"][-1]["weight"] == 25
    assert [step["weight"] for step in second["steps"]] == [5, 25, 50, 99]
    files = recordings(evidence)
    assert [*files] == ["canary.jsonl", "canary-run-1.jsonl"]
    assert files["canary.jsonl"] == windows_jsonl(evidence, 2)
    assert len(files["canary-run-1.jsonl"].splitlines()) == 1 + 2 + 15


def test_each_release_of_a_version_has_its_own_document() -> None:
    """By its id an earlier release is told as it ended then; without one the newest is; others are an error."""
    story = Story(release_id="first")
    story.canary(Traffic(candidate_errors=1.0), _SHORT)
    story.restore()
    story.release_again("second")
    story.canary(Traffic(seed=9), _SHORT)
    story.promote()
    older, newer = document_of(story, release_id="first"), document_of(story)
    assert (older["release_id"], older["outcome"]) == ("first", "rolled_back")
    assert (newer["release_id"], newer["outcome"]) == ("second", "promoted")
    assert newer == document_of(story, release_id="second")
    assert older["until"] < newer["runs"][0]["began_at"]
    assert all(run["recomputed"]["agrees"] for run in older["runs"] + newer["runs"])
    with pytest.raises(RecordError, match="first, second"):
        canary_evidence(story.events, story.policy, release_id="third")


def test_what_is_written_twice_counts_once() -> None:
    """A worker that died while it wrote down what it was told writes it again: windows and weights count once."""
    story = Story()
    story.canary(Traffic(), _SHORT, windows=2)
    once = document_of(story)["runs"]
    again = [event for event in story.events if event.kind in ("weight_observed", "window_judged")]
    for event in again:
        story.events.append(replace(event, seq=len(story.events) + 1))
    assert document_of(story)["runs"] == once


def test_releases_without_a_canary_have_a_document_too() -> None:
    """A refused release has no run; a first version one without windows: both recordings are a policy alone."""
    refused = Story()
    refused.tell(StageFinished(stage="validate", outcome="refused", reason="too inaccurate"))
    first = Story()
    first.tell(StageStarted(stage="canary"))
    first.tell(WeightIntended(weight=100, storage_uri="s3://b/1", stable_storage_uri=None))
    first.tell(WeightObserved(weight=100, traffic={"c": 100}))
    for story, runs in ((refused, 0), (first, 1)):
        document = document_of(story)
        assert len(document["runs"]) == runs
        assert json.loads(windows_jsonl(read_back(story))) == {"policy": story.policy.to_dict()}
    assert document["runs"][0]["steps"] == []
    assert [weight["weight"] for weight in document["runs"][0]["weights"]] == [0, 100]


def test_a_run_that_is_not_there_is_an_error() -> None:
    """Asking for the windows of a run that never was names the runs there are."""
    with pytest.raises(RecordError, match="from 1 to 1"):
        windows_jsonl(read_back(good()), 2)


def test_a_record_with_a_gap_is_an_error() -> None:
    """An event that is missing might have been a window: no document is made of the rest."""
    story = good()
    del story.events[10]
    with pytest.raises(RecordError, match="gaps"):
        canary_evidence(story.events, story.policy)


def test_a_step_that_saw_no_window_yet_is_told() -> None:
    """A canary that has only been begun has its step, without a bake, and nothing to judge again."""
    story = Story()
    story.tell(StageStarted(stage="canary"))
    story.tell(WeightIntended(weight=5, storage_uri="s3://b/3", stable_storage_uri=STABLE_URI))
    (run,) = document_of(story)["runs"]
    assert [(step["weight"], step["bake_s"], step["verdict"]) for step in run["steps"]] == [(5, None, None)]
    assert run["windows"] == []
