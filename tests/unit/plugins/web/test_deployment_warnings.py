"""What every page and the command line say of the deployment as a whole."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slipway.web import deployment_warnings
from slipway.web.deployment_warnings import PAUSED, warnings_of

AT = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)


def test_a_paused_dag_is_named_with_what_it_keeps_from_happening() -> None:
    """Of each DAG on which a release depends; another one may be paused for good."""
    first, second = warnings_of(["model_tuning", "model_intake", "model_release"], None, None)
    assert first.startswith(
        "The DAG model_release is paused in Airflow: no release starts or continues, and a canary"
    )
    assert second.startswith("The DAG model_intake is paused in Airflow: uploaded versions do not start")
    assert len(warnings_of(PAUSED, None, None)) == len(PAUSED)


def test_messages_that_could_not_be_read_are_told_with_the_first_reason() -> None:
    """And when that was; whatever lies in the XCom harms no page."""
    (warning,) = warnings_of([], {"number": 2, "reasons": ["found a text", "another"]}, AT)
    assert "2026-11-26 10:00:00 UTC" in warning
    assert warning.endswith("found a text")
    for odd in ({}, {"reasons": "x"}, {"reasons": [{"a": 1}]}, {"reasons": ["x" * 9000]}):
        (warning,) = warnings_of([], odd, AT)
        assert len(warning) < 700
    assert warnings_of([], "text", AT) == ()
    assert warnings_of([], None, None) == ()


def test_a_setting_that_cannot_be_used_is_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Airflow's database says nothing."""
    monkeypatch.setenv("SLIPWAY_SWEEP_CRON", "every ten minutes")
    found = deployment_warnings.deployment_warnings()
    assert [one for one in found if one.startswith("SLIPWAY_SWEEP_CRON is invalid")]
