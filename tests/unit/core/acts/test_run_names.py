"""What a run is called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slipway_core.acts.run_names import free_run_id, run_name, timed


@pytest.mark.parametrize(
    ("workflow", "conf", "name"),
    [
        ("release", {"model": "digits", "version": 2}, "digits-2"),
        ("release", {"model": "digits", "version": "2", "force": True}, "digits-2"),
        ("rollback", {"model": "digits", "reason": "bad"}, "digits-rollback"),
        ("rollback", {"model": "digits", "version": 1}, "digits-rollback-to-1"),
        ("pause", {"model": "digits"}, "digits-pause"),
        ("pause", {"model": "digits", "action": "resume"}, "digits-resume"),
        ("rejection", {"model": "digits", "version": 3}, "digits-3-reject"),
        ("rejection", {"model": "digits", "version": 3, "action": "unreject"}, "digits-3-unreject"),
        ("pin", {"model": "digits", "version": 3, "action": "unpin"}, "digits-3-unpin"),
        ("freeze", {"model": None}, "all-freeze"),
        ("freeze", {"model": "digits", "action": "thaw"}, "digits-thaw"),
        ("freeze", {"model": "digits", "action": "override", "version": 3}, "digits-3-override"),
        ("finding", {"model": "digits", "finding": "3-published"}, "digits-close-3-published"),
        ("revalidation", {}, "all-revalidation"),
        ("tuning", {"model": "digits", "version": 3}, "digits-3-tuning"),
        ("tuning", {"model": "digits"}, "digits-tuning"),
        ("benchmark", {"model": "digits"}, "digits-benchmark"),
        ("benchmark", {"model": "digits", "version": 3}, "digits-3-benchmark"),
        ("fleet", {"fleet": "edge", "version": 3}, "edge-3-fleet"),
        ("sync", {"model": "digits"}, "digits-sync"),
    ],
)
def test_a_run_is_named_after_what_it_is_about(workflow: str, conf: dict[str, Any], name: str) -> None:
    """The model first, then the version, then what is done to it."""
    assert run_name(workflow, conf) == name


@pytest.mark.parametrize(
    ("workflow", "conf"),
    [
        ("release", {}),
        ("release", {"model": "digits"}),
        ("release", {"model": "../../etc", "version": 2}),
        ("release", {"model": "digits", "version": True}),
        ("release", {"model": ["digits"], "version": 2}),
        ("freeze", {"action": "override", "model": "digits"}),
        ("finding", {"model": "digits", "finding": "3/../published"}),
        ("finding", {"model": "digits", "finding": "3..published"}),
        ("finding", {"model": "digits", "finding": 3}),
        ("retention", {"models": ["digits"]}),
        ("fleet", {"fleet": "../edge", "version": 3}),
        ("fleet", {"fleet": "edge"}),
        ("", {"model": "digits", "version": 2}),
    ],
)
def test_what_names_nothing_leaves_the_name_to_airflow(workflow: str, conf: dict[str, Any]) -> None:
    """A form that the DAG will refuse, hostile values and workflows without a name of ours are not named here."""
    assert run_name(workflow, conf) is None


def test_what_a_person_does_once_more_has_another_name() -> None:
    """Its run id stays in the bucket for longer than Airflow keeps the run; a release's is held against its record."""
    at = datetime(2026, 11, 22, 15, 45, 12, tzinfo=UTC)
    assert timed("pause", "digits-pause", at) == "digits-pause-20261122T154512"
    assert timed("release", "digits-2", at) == "digits-2"


def test_another_attempt_has_the_next_number() -> None:
    """A gap is filled, and a run id is never given twice."""
    assert free_run_id("digits-2", ()) == "digits-2"
    assert free_run_id("digits-2", {"digits-2", "digits-22"}) == "digits-2-2"
    assert free_run_id("digits-2", {"digits-2", "digits-2-2", "digits-2-4"}) == "digits-2-3"
    with pytest.raises(ValueError, match="there are"):
        free_run_id("a-1", {"a-1", *(f"a-1-{number}" for number in range(2, 10_000))})
