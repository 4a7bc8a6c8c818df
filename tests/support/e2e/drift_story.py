"""What is live is tuned, then changed behind everybody's back, and model_revalidation looks at it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

from slipway_core.operations.layout import revalidation_prefix, revalidation_report_key
from slipway_core.operations.revalidation.findings import Finding, finding_key
from slipway_core.operations.revalidation.report import ModelReport
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.e2e.release_files import DRIFTING
from tests.support.e2e.running_sandbox import NAMESPACE, Ended, RunningSandbox, finished
from tests.support.e2e.tuning_story import Tuned, tuned
from tests.support.serving.edited_server import BY_HAND, edit_configuration

REVALIDATION_DAG = "model_revalidation"


@dataclass(frozen=True)
class DriftStory:
    """Version 1 is released and tuned; then a byte of it is changed in the bucket, and its server by hand.

    `page` is the model's, `run_page` the run's.
    """

    first: Ended
    tuned: Tuned
    changed_key: str
    looked: DagRun
    report: ModelReport
    page: str
    run_page: str
    findings: dict[str, Finding]


def drift_story(sandbox: RunningSandbox) -> DriftStory:
    """A model that nobody releases anew."""
    first = sandbox.release(DRIFTING, 1)
    after_tuning = tuned(sandbox, DRIFTING, 1)
    key = f"models/{DRIFTING}/1/repository/{DRIFTING}/1/model.onnx"
    content = sandbox.read(key)
    sandbox.s3.put_object(
        Bucket=sandbox.settings.bucket, Key=key, Body=content[:-1] + bytes([content[-1] ^ 1])
    )
    sandbox.wait(lambda: _is_live(sandbox), "version 1 is live")
    edit_configuration(sandbox.settings.root, DRIFTING, DRIFTING)
    sandbox.wait(lambda: _serves_by_hand(sandbox), "the server is back with the other configuration")
    run_id = sandbox.airflow.start_run(REVALIDATION_DAG, {"model": DRIFTING}).run_id
    looked = sandbox.wait(
        lambda: finished(sandbox.airflow.run(REVALIDATION_DAG, run_id)), f"{run_id} of revalidation ends"
    )
    report_key = revalidation_report_key(run_id, DRIFTING)
    return DriftStory(
        first=first,
        tuned=after_tuning,
        changed_key=key,
        looked=looked,
        report=ModelReport.from_bytes(sandbox.read(report_key), report_key),
        page=sandbox.read(f"{report_key.removesuffix('.json')}.html").decode(),
        run_page=sandbox.read(f"{revalidation_prefix(run_id)}page.html").decode(),
        findings=_findings(sandbox),
    )


def _findings(sandbox: RunningSandbox) -> dict[str, Finding]:
    names = ("1-published", "1-configuration")
    keys = {name: finding_key(DRIFTING, name) for name in names}
    return {name: Finding.from_bytes(sandbox.read(key), key) for name, key in keys.items()}


def _is_live(sandbox: RunningSandbox) -> bool | None:
    service = sandbox.service(DRIFTING)
    return (service is not None and service.ready and service.alone(service.stable_revision)) or None


def _serves_by_hand(sandbox: RunningSandbox) -> bool | None:
    """True once users' way leads to a server with the other configuration, and the cluster says that it is ready."""
    try:
        config = _ask(sandbox, f"/v2/models/{DRIFTING}/config")
    except (OSError, HTTPException, ValueError):
        return None
    return (BY_HAND in config.get("parameters", {}) and _is_live(sandbox)) or None


def _ask(sandbox: RunningSandbox, path: str) -> dict[str, Any]:
    connection = HTTPConnection(LOOPBACK, sandbox.settings.ports.ingress, timeout=60)
    try:
        host = sandbox.settings.service_host(DRIFTING, NAMESPACE)
        connection.request("GET", path, headers={"Host": host})
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()
