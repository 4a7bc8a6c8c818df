"""Findings over many runs: opened once, kept while they are seen, closed by a run or a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.operations.revalidation.findings import (
    Finding,
    closed_by,
    finding_key,
    settled,
)
from slipway_core.operations.revalidation.report import (
    DETAILS_LIMIT,
    CheckResult,
    ModelReport,
    could_not_check,
    differs,
    no_reference,
    passed,
)

BEGIN = datetime(2026, 11, 22, 5, tzinfo=UTC)
CHECKS = ("published", "configuration", "answers")


def report(day: int, *checks: CheckResult, version: int | None = 3, **fields: Any) -> ModelReport:
    return ModelReport.model_validate(
        {
            "run": f"run-{day}",
            "model": "digits",
            "at": BEGIN + timedelta(days=day),
            "standing": "checked",
            "version": version,
            "checks": checks,
            **fields,
        }
    )


def after(reports: Sequence[ModelReport], known: Mapping[str, Finding] | None = None) -> dict[str, Finding]:
    """Return the findings after these runs, one after the other."""
    found = dict(known or {})
    for one in reports:
        found |= settled(found, one, unchecked_runs=3)
    return found


def changed(what: str = "a byte") -> CheckResult:
    return differs("published", f"{what} was changed", [what])


def test_what_is_seen_again_opens_nothing_again() -> None:
    """One finding, open since the first run that saw it; how often it was seen is counted."""
    found = after([report(day, changed()) for day in range(4)])
    (one,) = found.values()
    assert (one.name, one.status, one.times) == ("3-published", "open", 4)
    assert (one.opened_at, one.opened_run, one.last_run) == (BEGIN, "run-0", "run-3")
    assert finding_key("digits", one.name) == "operations/findings/digits/3-published.json"


def test_a_task_that_is_run_again_changes_nothing() -> None:
    """The same report settles nothing a second time."""
    once = after([report(0, changed())])
    assert settled(once, report(0, changed()), unchecked_runs=3) == {}


def test_a_run_that_finds_it_gone_closes_it_and_it_may_come_back() -> None:
    """A later sighting opens the finding anew, and remembers that it was open before."""
    found = after([report(0, changed()), report(1, passed("published", "all is well"))])
    closed = found["3-published"]
    assert closed.status == "closed"
    assert closed.closed is not None
    assert (closed.closed.by, closed.closed.run) == (None, "run-1")
    again = after([report(2, changed())], found)["3-published"]
    assert (again.status, again.opened_run, again.times, len(again.earlier)) == ("open", "run-2", 1, 1)


@pytest.mark.parametrize("outcome", [could_not_check, no_reference])
def test_what_was_not_compared_closes_nothing(outcome: Any) -> None:
    """A finding stays open while nobody can tell whether it is gone."""
    found = after([report(0, changed()), report(1, outcome("published", "no answer"))])
    assert found["3-published"].is_open


def test_what_a_person_has_closed_stays_closed_while_the_same_is_seen() -> None:
    """Something else opens it anew, and so does the same after it was gone."""
    found = after([report(0, changed())])
    mine = closed_by(found["3-published"], who="alice", reason="known", run="close-1", now=BEGIN)
    found = after([report(1, changed()), report(2, changed())], {mine.name: mine})
    assert found[mine.name].status == "closed"
    assert after([report(3, changed("two bytes"))], found)[mine.name].is_open
    gone_and_back = after([report(3, passed("published", "all is well")), report(4, changed())], found)
    assert gone_and_back[mine.name].is_open
    assert gone_and_back[mine.name].earlier[0].closed.by == "alice"


def test_who_closes_a_finding_is_known_and_it_is_open() -> None:
    """Nobody closes one without a name, or one that is closed; a task that is run again finds it done."""
    (one,) = after([report(0, changed())]).values()
    with pytest.raises(UserError, match="it is unknown who closes"):
        closed_by(one, who=None, reason="known", run="close-1", now=BEGIN)
    closed = closed_by(one, who="alice", reason="known", run="close-1", now=BEGIN)
    assert closed_by(closed, who="alice", reason="known", run="close-1", now=BEGIN) == closed
    with pytest.raises(UserError, match="is not open"):
        closed_by(closed, who="bob", reason="known", run="close-2", now=BEGIN)


def test_what_cannot_be_checked_for_some_runs_is_a_finding() -> None:
    """Not before the third run in a row, and no more once it can be checked, whatever that shows."""
    away = could_not_check("answers", "no answer")
    found = after([report(day, away) for day in range(2)])
    assert found["unchecked-answers"].status == "suspected"
    found = after([report(2, away)], found)
    assert found["unchecked-answers"].is_open
    assert after([report(3, no_reference("answers", "none"))], found)["unchecked-answers"].status == "closed"
    interrupted = after(
        [report(0, away), report(1, away), report(2, passed("answers", "well")), report(3, away)]
    )
    assert interrupted["unchecked-answers"].status == "suspected"


def test_a_cluster_that_cannot_be_asked_is_a_finding_of_the_model() -> None:
    """It is about no version, and closes no finding of one."""
    unknown = [
        report(day, version=None, standing="could_not_check", why="the API is away") for day in (1, 2, 3)
    ]
    found = after([report(0, changed()), *unknown])
    assert {name for name, one in found.items() if one.is_open} == {"3-published", "unchecked-live"}


def test_a_version_that_is_left_takes_its_findings_along() -> None:
    """What was said of a version is closed when another is live, or nothing."""
    opened = after([report(0, changed())])
    for later in (
        report(1, passed("published", "well"), version=4),
        report(1, version=None, standing="nothing_live"),
    ):
        (one,) = after([later], opened).values()
        assert one.closed is not None
        assert "no longer live" in one.closed.reason


@pytest.mark.parametrize("standing", ["in_flight", "not_enabled"])
def test_a_model_that_was_left_alone_keeps_its_findings(standing: str) -> None:
    """Nothing is opened or closed by a run that did not look."""
    opened = after([report(0, changed())])
    assert settled(opened, report(1, version=None, standing=standing), unchecked_runs=3) == {}


def test_many_details_are_counted() -> None:
    """A finding lists some and counts the rest; its digest is of all of them."""
    every = [f"file {number}" for number in range(DETAILS_LIMIT + 7)]
    result = differs("published", "many", every)
    assert (len(result.details), result.more) == (DETAILS_LIMIT, 7)
    assert result.digest == differs("published", "many", reversed(every)).digest
    assert result.digest != differs("published", "many", every[:-1]).digest


RESULTS = st.sampled_from(
    [
        make(check)
        for check in CHECKS
        for make in (
            lambda check: passed(check, "well"),
            lambda check: differs(check, "bad", ["one"]),
            lambda check: differs(check, "bad", ["another"]),
            lambda check: could_not_check(check, "no answer"),
            lambda check: no_reference(check, "none"),
        )
    ]
)
RUNS = st.lists(
    st.tuples(st.lists(RESULTS, max_size=3, unique_by=lambda one: one.check), st.sampled_from([2, 3])),
    min_size=1,
    max_size=12,
)


@given(RUNS)
def test_nothing_seen_is_lost(runs: list[tuple[list[CheckResult], int]]) -> None:
    """After each run what differs is open, what passed is not, and documents survive being written and read."""
    found: dict[str, Finding] = {}
    for day, (checks, version) in enumerate(runs):
        found = after([report(day, *checks, version=version)], found)
        for one in checks:
            name = f"{version}-{one.check}"
            if one.outcome == "differs":
                assert found[name].is_open
                assert found[name].digest == one.digest
            elif one.outcome == "passed":
                assert name not in found or not found[name].is_open
        assert not any(one.is_open and one.version not in (version, None) for one in found.values())
        for name, one in found.items():
            assert one.name == name
            assert Finding.from_bytes(one.to_bytes(), name) == one
