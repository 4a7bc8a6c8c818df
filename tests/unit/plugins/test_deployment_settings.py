"""Slipway's environment variables: a wrong one switches nothing off, and is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway.deployment.settings import (
    folder_of,
    is_missing_folder,
    is_true,
    problems,
    require_settings,
    schedule_of,
    text_of,
)
from slipway_core.errors import UserError
from slipway_sandbox.host.settings import PROJECT_ROOT

RIGHT = {
    "SLIPWAY_SWEEP_CRON": "*/5 * * * *",
    "SLIPWAY_GC_CRON": "@weekly",
    "SLIPWAY_FLEET_WATCH_CRON": "0,30 8-17 * * MON-FRI",
    "SLIPWAY_REGISTRY_SYNC_CRON": " */5 * * * * ",
    "SLIPWAY_REVALIDATION_CRON": "0 5 * * *",
    "SLIPWAY_SCHEDULES_CRON": "*/20 * * * *",
    "SLIPWAY_DOCTOR_CRON": "0 6 * * *",
    "SLIPWAY_GC_DRY_RUN": "False",
    "SLIPWAY_GC_AWS_CONN_ID": "aws_collector",
    "SLIPWAY_INTAKE_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/111122223333/slipway-intake",
    "SLIPWAY_RELEASES_DIR": str(PROJECT_ROOT),
    "SLIPWAY_FLEETS_DIR": str(PROJECT_ROOT),
    "SLIPWAY_NOTIFY": '[{"on": ["rolled_back"], "to": "slack_default"}]',
    "SLIPWAY_COMMIT": "eee48ca1-dirty",
}
WRONG = {
    "SLIPWAY_SWEEP_CRON": [
        "*/10 * * *",
        "* * * * * *",
        "hourly",
        "60 * * * *",
        "0 0 31 2 *",
        "@reboot",
        "10",
    ],
    "SLIPWAY_GC_CRON": ["sundays"],
    "SLIPWAY_FLEET_WATCH_CRON": ["*/0 * * * *"],
    "SLIPWAY_REGISTRY_SYNC_CRON": ["5m"],
    "SLIPWAY_REVALIDATION_CRON": ["05:00"],
    "SLIPWAY_SCHEDULES_CRON": ["hourly"],
    "SLIPWAY_DOCTOR_CRON": ["daily"],
    "SLIPWAY_GC_DRY_RUN": ["flase", "0", "no"],
    "SLIPWAY_GC_AWS_CONN_ID": ["aws collector", "aws://key:secret@"],
    "SLIPWAY_INTAKE_QUEUE_URL": ["slipway-intake", "arn:aws:sqs:eu-west-1:111122223333:q", "https://sqs"],
    "SLIPWAY_RELEASES_DIR": ["/nowhere/releases"],
    "SLIPWAY_FLEETS_DIR": ["/nowhere/fleets"],
    "SLIPWAY_NOTIFY": ["slack_default", '[{"on": ["rolled_bak"], "to": "slack_default"}]'],
    "SLIPWAY_COMMIT": ["not a commit"],
}


def test_right_values_are_no_problem() -> None:
    """Nor are variables that are not set, blank ones, and those of other programs."""
    assert problems(RIGHT) == ()
    assert problems(dict.fromkeys(RIGHT, " ")) == ()
    others = {
        "SLIPWAY_BUCKET": "b",
        "SLIPWAY_USER": "me",
        "SLIPWAY_URL": "http://a",
        "SLIPWAY_PORT_AIRFLOW": "1",
    }
    assert problems({"PATH": "/bin", **others}) == ()
    require_settings(RIGHT)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in WRONG.items() for text in texts])
def test_a_wrong_value_is_named(name: str, text: str) -> None:
    """With what it may hold, what it holds, and what holds instead."""
    (problem,) = problems({**RIGHT, name: text})
    assert problem.variable == name
    assert re.fullmatch(rf"{name} is invalid: expected .+, found .+\. [A-Z].+\.", problem.sentence)
    with pytest.raises(UserError, match=name):
        require_settings({name: text})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("SLIPWAY_SWEEP_CORN", "SLIPWAY_SWEEP_CRON"),
        ("SLIPWAY_GC_DRYRUN", "SLIPWAY_GC_DRY_RUN"),
        ("SLIPWAY_RELEASE_DIR", "SLIPWAY_RELEASES_DIR"),
    ],
)
def test_a_mistyped_name_is_told_with_the_nearest(written: str, meant: str) -> None:
    """Otherwise the default would hold without a word; where the right one is set too, nothing is amiss."""
    (problem,) = problems({written: "x"})
    assert problem.sentence.endswith(f"Did you mean {meant}?")
    assert problems({written: "x", meant: RIGHT[meant]}) == ()


def test_nothing_is_deleted_by_a_mistyped_value() -> None:
    """A dry run stays one unless the variable says no in so many words."""
    said = {"false": False, "FALSE": False, "0": True, "no": True, "true": True, "": True, "flase": True}
    assert {text: is_true("V", default=True, environment={"V": text}) for text in said} == said


def test_a_folder_that_is_not_there_is_known_to_be_missing(tmp_path: Path) -> None:
    """A blank variable means the default, and not the folder in which the program runs."""
    assert folder_of("V", tmp_path, {"V": " "}) == tmp_path
    assert folder_of("V", tmp_path, {"V": "/a"}) == Path("/a")
    found = [is_missing_folder("V", {"V": text}) for text in ("", str(tmp_path), str(tmp_path / "no"))]
    assert found == [False, False, True]


def test_spaces_around_a_value_do_not_count() -> None:
    """They come with a line of a file."""
    assert text_of("V", {"V": " a \n"}) == "a"
    assert schedule_of("V", "0 1 * * *", {"V": " 0 2 * * * "}) == "0 2 * * *"
