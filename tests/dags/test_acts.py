"""What the pages and the command line ask Airflow for is what the workflows take."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.hitl import ApprovalOperator

from slipway.workflows import dag_id_of
from slipway_core.acts.act import APPROVE, EVIDENCE_LONGEST, REJECT
from slipway_core.acts.requests import (
    COMMENT,
    ActInput,
    Question,
    StartRun,
    request_of,
)
from slipway_core.acts.table import ACTS
from tests.support.dags.workflows import fill_in

LEAST = ActInput(
    model="digits",
    version=3,
    reason="why",
    until=datetime.now(UTC) + timedelta(days=2),
    finding="3-published",
    question=Question("model_release", "digits-3", "rollout.approve"),
    release_id="digits-3",
)
MOST = replace(
    LEAST,
    reason="x" * 500,
    evidence="e" * EVIDENCE_LONGEST,
    force=True,
    wait_for_approval=True,
    newer=True,
    emergency=True,
)


@pytest.mark.parametrize("asked", [LEAST, MOST], ids=["least", "most"])
@pytest.mark.parametrize("name", [name for name in ACTS if ACTS[name].means == "start_run"])
def test_the_workflow_takes_what_an_act_asks_for(bag: DagBag, name: str, asked: ActInput) -> None:
    """Every act's parameters are accepted by the form of its workflow, and are known there."""
    request = request_of(name, asked)
    assert isinstance(request, StartRun)
    dag = bag.dags[dag_id_of(request.workflow)]
    assert set(request.conf) <= set(dag.params)
    fill_in(dag, dict(request.conf))


@pytest.mark.parametrize("name", [name for name in ACTS if ACTS[name].means == "start_run"])
def test_the_least_that_an_act_needs_is_enough(bag: DagBag, name: str) -> None:
    """With the required fields alone the form is complete."""
    given = {field: getattr(LEAST, field) for field in ACTS[name].required}
    request = request_of(name, ActInput(**given))
    assert isinstance(request, StartRun)
    fill_in(bag.dags[dag_id_of(request.workflow)], dict(request.conf))


def test_an_answer_is_one_that_the_workflows_offer(bag: DagBag) -> None:
    """The answers and the field for the comment are those of the approvals."""
    assert (APPROVE, REJECT) == (ApprovalOperator.APPROVE, ApprovalOperator.REJECT)
    approvals = [
        task for dag in bag.dags.values() for task in dag.tasks if isinstance(task, ApprovalOperator)
    ]
    assert len(approvals) == 4
    for task in approvals:
        assert task.options == [APPROVE, REJECT]
        assert set(task.params) == {COMMENT}


def test_what_is_aborted_has_teardowns(bag: DagBag) -> None:
    """The run that an abort marks as failed takes its users back and concludes by teardowns."""
    dag = bag.dags[dag_id_of(ACTS["abort"].workflow)]
    assert dag.get_task("rollout.restore_stable").is_teardown
    assert dag.get_task("conclude").is_teardown
