"""Recorded verdicts and a recorded state of a judge, as they lie in S3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.recordings import replay
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Window

_FILE = Path(__file__).parents[3] / "support" / "canary" / "recorded_verdicts.json"
RECORDED: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))


def lines_of(story: dict[str, Any]) -> list[str]:
    return [json.dumps(line) for line in story["lines"]]


def assert_equal(found: Any, recorded: Any) -> None:
    """The same keys in the same order, the same texts, and the same numbers but for their last digits."""
    if isinstance(recorded, dict):
        assert [*found] == [*recorded]
        for key, value in recorded.items():
            assert_equal(found[key], value)
    elif isinstance(recorded, float):
        assert isinstance(found, float)
        assert found == pytest.approx(recorded, rel=1e-9)
    else:
        assert (type(found), found) == (type(recorded), recorded)


def test_each_status_is_among_them() -> None:
    """The recordings have verdicts of each status, without data, and on users' and replayed windows."""
    verdicts = [verdict for story in RECORDED.values() for verdict in story["verdicts"]]
    assert {verdict["status"] for verdict in verdicts} == {"pass", "fail", "inconclusive"}
    assert {verdict["no_data"] for verdict in verdicts} == {True, False}
    assert {verdict["window"]["source"] for verdict in verdicts if verdict["window"]} == {"users", "replay"}


@pytest.mark.parametrize("name", RECORDED)
def test_the_judge_says_what_it_said(name: str) -> None:
    """Judged again, every window gets the verdict that was recorded, key by key."""
    story = RECORDED[name]
    verdicts = [verdict.to_dict() for _, verdict in replay(lines_of(story), name)]
    assert len(verdicts) == len(story["verdicts"])
    for found, recorded in zip(verdicts, story["verdicts"], strict=True):
        assert_equal(found, recorded)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_verdict_is_read_and_written_as_it_was(name: str) -> None:
    """From the record to the types and back, a verdict keeps its JSON, byte for byte."""
    for recorded in RECORDED[name]["verdicts"]:
        assert json.dumps(Verdict.from_dict(recorded).to_dict()) == json.dumps(recorded)


@pytest.mark.parametrize(
    "change",
    [{"status": "perhaps"}, {"statistics": {}}, {"window": {}}, {"statistics": None}, {"reason": None}],
)
def test_what_is_no_verdict_is_not_read_as_one(change: dict[str, Any]) -> None:
    """A verdict with a part of another form is refused."""
    recorded = RECORDED["undecided"]["verdicts"][1]
    with pytest.raises((ValueError, KeyError, TypeError)):
        Verdict.from_dict(recorded | change)


def test_a_judge_goes_on_from_a_state_that_was_saved_before() -> None:
    """A recorded state is taken over, counts that nobody judged included, and judges the rest as it would have."""
    story = RECORDED["golden_replay_fail"]
    state = story["state"]
    judge = CanaryJudge.from_json(state["judge"])
    assert (judge.unjudged.candidate_requests, judge.unjudged.candidate_errors) == (5, 2)
    assert json.loads(judge.to_json()) == json.loads(state["judge"])
    rest = story["lines"][state["after_lines"] :]
    found = [judge.observe(Window.from_dict(line["window"])).to_dict() for line in rest]
    for one, recorded in zip(found, story["verdicts"][-len(rest) :], strict=True):
        assert_equal(one, recorded)
