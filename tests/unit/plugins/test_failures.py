"""How the project's errors end a task, and how its log shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_triton import errors as triton
from airflow_provider_triton.operators.failures import airflow_failures as triton_failures
from slipway.failures import PlainFailure, airflow_failures, block_of
from slipway_core.errors import (
    BenchmarkInconclusiveError,
    InputMissingError,
    SlipwayError,
    StoreUnavailableError,
    ValidationRefusedError,
)

REFUSED = ValidationRefusedError(
    "too many wrong answers", expected="at least 95 %", found="81 %", remedy="train it again\nthen release it"
)

# What a task's process does, with Airflow's own log: the plugin is told that a task starts, then the task fails.
TASK = """
import sys
from airflow.sdk.log import configure_logging
import structlog
configure_logging(json_output=True, output=open(sys.argv[1], "wb", buffering=0), sending_to_supervisor=True)
log = structlog.get_logger(logger_name="task")
log.info("the task begins")

from airflow.sdk.execution_time.task_runner import TaskRunnerMarker
import slipway_plugin
slipway_plugin.on_starting(TaskRunnerMarker())
slipway_plugin.on_starting(TaskRunnerMarker())

from slipway_core.errors import StoreUnavailableError, ValidationRefusedError
from slipway.failures import airflow_failures

def refused():
    with airflow_failures(lambda: "https://airflow/slipway/evidence/digits/2/run/validation.html"):
        raise ValidationRefusedError("too many wrong answers", expected="95 %", found="81 %", remedy="train it again")

def bug():
    with airflow_failures():
        return {}["nothing"]

def unreachable():
    try:
        raise OSError("no route to host")
    except OSError as error:
        raise StoreUnavailableError("S3 does not answer") from error

for step in (refused, bug, unreachable):
    try:
        step()
    except Exception:
        log.exception("Task failed with exception")
"""


@pytest.mark.parametrize(
    ("error", "block"),
    [
        (
            REFUSED,
            "REFUSED: too many wrong answers\n"
            "  expected  at least 95 %\n"
            "  found     81 %\n"
            "  to do     train it again\n"
            "            then release it",
        ),
        (InputMissingError("no golden set"), "NOT POSSIBLE: no golden set"),
        (BenchmarkInconclusiveError("slow, and so is stable"), "INCONCLUSIVE: slow, and so is stable"),
        (StoreUnavailableError("no answer", found="HTTP 503"), "NOT NOW: no answer\n  found     HTTP 503"),
        (SlipwayError("strange"), "FAILED: strange"),
        (triton.LoadRefusedError("bad", found="no model"), "REFUSED: bad\n  found     no model"),
        (triton.ServerUnavailableError("no answer"), "NOT NOW: no answer"),
        (
            PlainFailure("digits version 2: rolled_back.", page="/a"),
            "FAILED: digits version 2: rolled_back.\n  see       /a",
        ),
        (
            PlainFailure("digits 2: rolled_back.", why=f"{'word ' * 18}x last", page="/a"),
            f"FAILED: digits 2: rolled_back.\n  why       {'word ' * 17}word\n            x last\n  see       /a",
        ),
        (ValueError("a bug"), None),
        (AirflowFailException("somebody else's"), None),
        (None, None),
    ],
)
def test_an_error_is_a_block_of_what_is_known(error: BaseException | None, block: str | None) -> None:
    """A heading that says whose turn it is, and a line for each fact; other errors are none of ours."""
    assert block_of(error) == block


def test_what_a_person_must_act_on_is_not_tried_again() -> None:
    """The message is the error's, and the block is the error's as well, with the page that shows why."""
    with (
        pytest.raises(AirflowFailException, match="too many wrong answers") as caught,
        airflow_failures(lambda: "/page"),
    ):
        raise REFUSED
    assert str(caught.value) == str(REFUSED)
    assert block_of(caught.value) == f"{block_of(REFUSED)}\n  see       /page"


def test_a_task_of_the_triton_provider_shows_the_same_block() -> None:
    """Slipway's DAGs have such tasks; who reads their log need not know whose they are."""
    with pytest.raises(AirflowFailException) as caught, triton_failures():
        raise triton.UserError("no such field", remedy="correct the DAG")
    assert block_of(caught.value) == "NOT POSSIBLE: no such field\n  to do     correct the DAG"


@pytest.mark.parametrize("error", [StoreUnavailableError("no answer"), ValueError("a bug")])
def test_what_may_be_tried_again_passes_through(error: Exception) -> None:
    """Airflow tries it again, as it does what nobody has foreseen."""
    with pytest.raises(type(error)), airflow_failures():
        raise error


def test_a_tasks_log_has_no_traceback_of_a_refusal(tmp_path: Path) -> None:
    """In Airflow's own log of a task: a block each for our errors, the whole traceback for a bug."""
    file = tmp_path / "task.log"
    ended = subprocess.run(
        [sys.executable, "-c", TASK, str(file)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert ended.returncode == 0, file.read_text()
    entries: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    refused, bug, unreachable = [entry for entry in entries if entry["level"] == "error"]
    assert refused["event"].splitlines() == [
        "REFUSED: too many wrong answers",
        "  expected  95 %",
        "  found     81 %",
        "  to do     train it again",
        "  see       https://airflow/slipway/evidence/digits/2/run/validation.html",
    ]
    assert "exception" not in refused
    assert unreachable["event"] == "NOT NOW: S3 does not answer"
    assert "exception" not in unreachable
    assert bug["event"] == "Task failed with exception"
    assert [one["exc_type"] for one in bug["exception"]] == ["KeyError"]


def test_a_plain_failure_tells_its_reason() -> None:
    """Where Airflow shows the error itself, it is one sentence after the other."""
    assert (
        str(PlainFailure("digits 2: rolled_back.", why="It was slower.", page="/a"))
        == "digits 2: rolled_back. It was slower."
    )
