"""Steps that run in pods, without a scheduler: the emulated cluster, a task's context, a trigger's event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slipway_sandbox.host.images import build_image
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.cluster.emulator import Emulator


@contextmanager
def pod_cluster(folder: Path, s3_endpoint: str, image: str) -> Iterator[Emulator]:
    """A cluster with one image, whose pods reach the object store, while the context lasts."""
    credentials = {"AWS_ACCESS_KEY_ID": "slipway-test", "AWS_SECRET_ACCESS_KEY": "slipway-test"}
    node_env = credentials | {"AWS_ENDPOINT_URL": s3_endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
    scripts = str(PROJECT_ROOT / "include" / "pod_scripts")
    cluster = Emulator(folder, node_env=node_env, pod_scripts_dir=scripts)
    (cluster.folder / "images" / image).symlink_to(build_image(image))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def task_context(task_id: str, run_id: str) -> Any:
    """A run's context for one task, outside of any scheduler."""
    instance = SimpleNamespace(
        dag_id="model_release",
        task_id=task_id,
        run_id=run_id,
        map_index=-1,
        try_number=1,
        start_date=datetime.now(UTC),
        xcom_push=lambda *_, **__: None,
    )
    return {
        "ti": instance,
        "run_id": run_id,
        "dag": SimpleNamespace(dag_id="model_release", parent_dag=None),
    }


async def first_event(trigger: Any) -> Any:
    """What the trigger, run as the triggerer runs it, tells the operator."""
    async for event in trigger.run():
        return event.payload
    raise AssertionError("the trigger ended without an event")
