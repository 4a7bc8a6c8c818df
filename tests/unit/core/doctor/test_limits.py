"""Clocks, Airflow's options, and what a canary finds at a traffic."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway_core.doctor.airflow_limits import AirflowLimits, limit_findings
from slipway_core.doctor.clocks import clock_finding
from slipway_core.doctor.line import Status
from slipway_core.doctor.power import play, power_finding
from slipway_core.spec.release_file import ReleaseSpec, release_spec_of

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
WELL = AirflowLimits(
    threshold_s=15,
    triggerer_heartbeat_s=2,
    task_heartbeat_timeout_s=60,
    execution_api_timeout_s=30,
    least_heartbeat_s=1,
    import_timeout_s=180,
    triggers=100,
)


def spec(**rollout: Any) -> ReleaseSpec:
    """Return a small release file."""
    return release_spec_of({"model": "digits", "source": {"format": "onnx"}, "rollout": rollout}, "a test")


@pytest.mark.parametrize(
    ("apart_s", "status"),
    [(0, Status.OK), (4, Status.OK), (-4, Status.OK), (30, Status.WARNING), (-30, Status.WARNING),
     (600, Status.FAILED), (-600, Status.FAILED)],
)  # fmt: skip
def test_clocks_may_be_some_seconds_apart(apart_s: int, status: Status) -> None:
    """Ahead or behind."""
    found = clock_finding("the object store", NOW + timedelta(seconds=apart_s), NOW, NOW)
    assert found.status is status


def test_a_clock_that_says_nothing_is_unknown() -> None:
    """No Date is no agreement."""
    assert clock_finding("Kubernetes", None, NOW, NOW).status is Status.UNKNOWN


def test_options_as_the_settings_page_has_them_are_well() -> None:
    """Each of them, and the lease."""
    assert {one.status for one in limit_findings(WELL, {"digits": spec()})} == {Status.OK}


@pytest.mark.parametrize(
    ("change", "what", "status"),
    [
        ({"task_heartbeat_timeout_s": 300}, "[scheduler] task_instance_heartbeat_timeout", Status.WARNING),
        ({"execution_api_timeout_s": 5}, "[workers] execution_api_timeout", Status.WARNING),
        ({"least_heartbeat_s": 5}, "[workers] min_heartbeat_interval", Status.WARNING),
        ({"import_timeout_s": 30}, "[core] dagbag_import_timeout", Status.WARNING),
        ({"triggers": 5}, "[triggerer] capacity", Status.WARNING),
        ({"triggers": None}, "[triggerer] capacity", Status.UNKNOWN),
        ({"import_timeout_s": None}, "[core] dagbag_import_timeout", Status.UNKNOWN),
        ({"threshold_s": 45}, "lease of digits", Status.FAILED),
        ({"threshold_s": 3}, "lease of digits", Status.FAILED),
        ({"threshold_s": None}, "lease of digits", Status.UNKNOWN),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_each_option_is_found(change: dict[str, Any], what: str, status: Status) -> None:
    """With what to set."""
    found = {one.what: one for one in limit_findings(replace(WELL, **change), {"digits": spec()})}
    assert found[what].status is status
    assert found[what].remedy


def test_a_canary_of_enough_traffic_finds_a_small_fault() -> None:
    """And says at which step."""
    found = power_finding("digits", spec(), 20.0)
    assert found.status is Status.OK
    assert "at 25 %" in found.found


def test_a_canary_that_nobody_asks_ends_every_release() -> None:
    """A good version would not pass either."""
    found = power_finding("digits", spec(), 0.1)
    assert (found.status, "on_inconclusive" in found.found) == (Status.WARNING, True)


def test_a_canary_whose_judge_is_asked_for_nothing_has_failed() -> None:
    """One request is enough to pass, and a wide margin lets all faults be."""
    blind = spec(
        steps=[{"weight": 1, "bake_s": 10}],
        analysis={"minimum_candidate_requests": 1, "error_margin_percent": 50},
    )
    assert power_finding("digits", blind, 5.0).status is Status.FAILED


def test_a_small_fault_that_reaches_all_users_is_a_warning() -> None:
    """Where the margin is wider than it."""
    wide = spec(analysis={"error_margin_percent": 2})
    assert power_finding("digits", wide, 50.0).status is Status.WARNING


def test_a_canary_of_days_is_played_in_seconds() -> None:
    """In longer windows."""
    long = spec(steps=[{"weight": 5, "bake_s": 86_400}], window_s=1, max_bake_s=86_400)
    assert play(long, 1.0, 0.1).end == "found"
