"""What becomes of an act where Airflow answers with an error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from slipway.web.acts.airflow_api import AirflowApi, AirflowRefusedError
from slipway.web.acts.carry_out import Done, carry_out
from slipway_core.acts.requests import StartRun

PAUSE = StartRun("canary_pause", {"model": "digits"}, "wrong labels")


class AirflowDouble:
    """Answers each request to start a run with the next of `statuses`, and remembers the runs' names."""

    def __init__(self, statuses: Sequence[int]) -> None:
        self._statuses = list(statuses)
        self.asked: list[str] = []

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(body["dag_run_id"])
        status = self._statuses.pop(0)
        if status >= 400:
            raise AirflowRefusedError(status, f"Airflow answered {status}")
        return {}


def pause(airflow: AirflowDouble) -> Done:
    """Carry out a pause, as the form with the nonce `c0ffee` asks for it."""
    api = cast(AirflowApi, airflow)
    return asyncio.run(carry_out(api, "pause", PAUSE, model=None, nonce="c0ffee"))


@pytest.mark.parametrize(
    ("statuses", "is_new"), [((200,), True), ((409,), False), ((500, 409), False), ((500, 200), True)]
)
def test_a_run_is_asked_for_again_under_its_name_after_an_error_of_airflows_own(
    statuses: tuple[int, ...], is_new: bool
) -> None:
    """Whether the first request wrote the run or not, the second says what is true: it is there, or it is new."""
    airflow = AirflowDouble(statuses)
    done = pause(airflow)
    assert done.is_new == is_new
    assert airflow.asked == [done.run_id] * len(statuses)
    assert done.run_id.endswith("c0ffee")


@pytest.mark.parametrize(("statuses", "asked"), [((403,), 1), ((404,), 1), ((500, 500), 2), ((500, 403), 2)])
def test_what_airflow_refuses_is_told(statuses: tuple[int, ...], asked: int) -> None:
    """An act that is not allowed is asked for once; where Airflow fails twice, that is said."""
    airflow = AirflowDouble(statuses)
    with pytest.raises(AirflowRefusedError) as refused:
        pause(airflow)
    assert refused.value.status == statuses[-1]
    assert len(airflow.asked) == asked
