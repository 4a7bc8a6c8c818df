"""From connections to the parts of a step: what is made of which part of the release run."""

from __future__ import annotations

import json

import pytest

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.release_context import Connections, ReleaseContext
from slipway.release_run import ReleaseRun
from slipway_core.errors import UserError

CONNECTIONS = Connections(aws="store", kubernetes="cluster", metrics="numbers")


def test_every_part_is_made_from_its_own_connection(release_run: ReleaseRun) -> None:
    """The cluster's parts from the cluster's connection, the store from the store's; each is made once."""
    parts = ReleaseContext(release_run.model_dump_json(), CONNECTIONS)
    assert parts.release_run == release_run
    assert isinstance(parts.service, KServeHook)
    assert isinstance(parts.lease, LeaseHook)
    assert (parts.service.name, parts.service.namespace) == ("digits", "models")
    assert parts.service.kubernetes_conn_id == parts.lease.kubernetes_conn_id == "cluster"
    assert parts.store.bucket == "slipway"
    assert parts.service is parts.service
    assert parts.make_service() is not parts.service


def test_the_way_back_is_made_although_the_release_file_cannot_be_read(release_run: ReleaseRun) -> None:
    """A release run of another code version still says which InferenceService users are to be taken off."""
    foreign = json.loads(release_run.model_dump_json()) | {"spec": {"model": "digits", "no": "such key"}}
    parts = ReleaseContext(json.dumps(foreign), CONNECTIONS)
    assert parts.service.name == "digits"
    assert parts.lease.inference_service == "digits"
    with pytest.raises(UserError):
        _ = parts.store


def test_a_task_and_its_trigger_are_given_the_same_parts(release_run: ReleaseRun) -> None:
    """A task has the release run as rendered text, a trigger as the mapping that was serialized."""
    task = ReleaseContext(release_run.model_dump_json(), CONNECTIONS)
    trigger = ReleaseContext(release_run.model_dump(mode="json"), CONNECTIONS)
    assert trigger.release_run == task.release_run
    assert trigger.address == task.address
