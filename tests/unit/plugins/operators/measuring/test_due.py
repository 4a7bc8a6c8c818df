"""Which scheduled runs are listed: those whose time has come, once, whatever is wrong with another release file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.operators.measuring import due
from slipway.operators.measuring.due import ListDueRunsOperator

FILE = "model: {model}\nsource: {{format: onnx}}\n{part}: {{schedule: '{cron}'}}\n"
RUN = "scheduled-digits-20261129T0300"


@pytest.fixture(autouse=True)
def at_five_past_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is five past three on a Sunday."""
    now = datetime(2026, 11, 29, 3, 5, tzinfo=UTC)
    monkeypatch.setattr(due, "datetime", SimpleNamespace(now=lambda zone: now))


def write(folder: Path, model: str, cron: str, part: str = "benchmark") -> None:
    (folder / f"{model}.yaml").write_text(FILE.format(model=model, part=part, cron=cron))


def listed(folder: Path, *started: str, part: Any = "benchmark") -> list[dict[str, Any]]:
    """What is listed while the runs `started` are there."""

    def state(dag_id: str, run_id: str) -> str | None:
        assert dag_id == "model_benchmark"
        return "success" if run_id in started else None

    operator = ListDueRunsOperator(
        task_id="list", releases_dir=str(folder), part=part, starts="model_benchmark"
    )
    context: Any = {"ti": SimpleNamespace(get_dagrun_state=state)}
    return operator.execute(context)


def test_what_is_due_is_listed_until_it_is_started(tmp_path: Path) -> None:
    """For the live version, by a run id that the model and the time make; what has run is not started again."""
    write(tmp_path, "digits", "0 3 * * 0")
    write(tmp_path, "later", "0 4 * * 0")
    (tmp_path / "none.yaml").write_text("model: none\nsource: {format: onnx}\n")
    assert listed(tmp_path) == [{"trigger_run_id": RUN, "conf": {"model": "digits"}}]
    assert listed(tmp_path, RUN) == []


def test_each_part_has_its_own_schedule(tmp_path: Path) -> None:
    """A tuning's time starts no benchmark."""
    write(tmp_path, "digits", "0 3 * * 0", part="tuning")
    assert listed(tmp_path) == []
    assert [one["trigger_run_id"] for one in listed(tmp_path, part="tuning")] == [RUN]


def test_a_mistyped_schedule_stops_no_other_and_is_no_silence(tmp_path: Path) -> None:
    """What is due is listed beside it; when nothing is due the task fails with the file's error."""
    write(tmp_path, "digits", "0 3 * * 0")
    write(tmp_path, "wrong", "0 3 * * FUNDAY")
    assert [one["conf"]["model"] for one in listed(tmp_path)] == ["digits"]
    with pytest.raises(AirflowFailException, match="wrong"):
        listed(tmp_path, RUN)
