"""The canary of a bad version, whose dependencies hang: its users are taken back nevertheless."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from airflow.sdk import BaseHook

from tests.support.guard.stage import SLACK_S, Stage
from tests.support.stalled.services import CLUSTER, METRICS, STORE, StallableServices
from tests.support.stalled.watched import LONG_BAKE_S, SHIELDED_WITHIN_S, assert_watched, watched
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("harm", [{"errors": 0.5}, {"slow": True}], ids=["errors", "slow"])
@pytest.mark.parametrize("part", [STORE, METRICS])
async def test_bad_version_is_taken_back_while_a_dependency_hangs(
    services: StallableServices, stage: Stage, part: str, harm: dict[str, Any]
) -> None:
    """Neither the object store nor the metrics source can keep users on a bad version by not answering."""
    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        services.become(**harm)
        with services.stopped(part):
            await until(lambda: stage.candidate_share() == 0, "weight 0 during the stall", SHIELDED_WITHIN_S)
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"
    assert_watched(canary)


async def test_bad_version_is_taken_back_as_soon_as_the_cluster_answers(
    services: StallableServices, stage: Stage
) -> None:
    """The judge goes on while the cluster hangs, and the weight is 0 soon after the cluster is back."""
    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        with services.stopped(CLUSTER):
            services.become(errors=0.5)
            await until(lambda: canary.windows[-1]["status"] == "fail", "the verdict", SHIELDED_WITHIN_S)
        await until(lambda: stage.candidate_share() == 0, "weight 0", SLACK_S)
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"


async def test_bad_version_is_taken_back_while_airflow_hangs(
    services: StallableServices, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that has begun asks Airflow for nothing: no connection is looked up to judge or to shield."""
    answers = threading.Event()

    def hang(conn_id: str) -> Any:
        answers.wait(SHIELDED_WITHIN_S + SLACK_S)
        raise AssertionError(f"{conn_id} was looked up in the middle of the watch")

    async with watched(services.release_run(stage, LONG_BAKE_S)) as canary:
        monkeypatch.setattr(BaseHook, "get_connection", hang)
        services.become(errors=0.5)
        await until(lambda: stage.candidate_share() == 0, "weight 0", SHIELDED_WITHIN_S)
    answers.set()
    assert canary.event is not None
    assert canary.event["decision"] == "roll_back"
