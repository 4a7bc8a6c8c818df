"""Releases from their conversion's result on, up to the validation on staging."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airflow_provider_triton.operators import TritonLoadModelOperator
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import STAGING_CONN_ID
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.record.fold import Stage
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonServer
from tests.support.serving.text_model import text_model_files

CONTEXT: Any = {}
WORDS = {"What is 2 + 2?": ["It", " is", " four."], "And 3 + 3?": ["It", " is", " six."]}
PROMPTS = np.array([[prompt] for prompt in WORDS])
LABELS = np.array(["it is  FOUR.", "It is six."])
CHAT = """
model: chat
source: {format: python}
conversion: {target: python}
validation: {kind: text, output: text_output, score_min: 1, agreement_min: 0.5, timeout_s: 5}
"""
RENT = """
model: rent
source: {format: onnx}
serving: {max_batch_size: 8}
validation: {kind: regression, output: prediction, mae_max: 0.5, r2_min: 0.9, agreement_min: 1, rel_tolerance: 0.1}
"""


def connect(monkeypatch: pytest.MonkeyPatch, server: TritonServer, **extra: str) -> None:
    """Point the connection triton_staging at a server."""
    connection = {"conn_type": "generic", "host": LOOPBACK, "port": server.ports.http}
    connection["extra"] = {"grpc_port": server.ports.grpc, **extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", json.dumps(connection))


class Release:
    """One release from its conversion's result on, as the DAG would have it run."""

    def __init__(
        self, store: ModelStoreHook, text: str | ReleaseSpec, version: int, stable: int | None = None
    ) -> None:
        spec = parse_release_spec(text, "release.yaml") if isinstance(text, str) else text
        uri = f"s3://{store.bucket}/models/{spec.model}/{stable}/repository"
        self.store, self.prepared = store, dict[str, Any]()
        self.release_run = ReleaseRun(
            release_id=f"{spec.model}-{version}",
            model=spec.model,
            version=version,
            bucket=store.bucket,
            spec=spec,
            stable=None if stable is None else StableVersion(version=stable, storage_uri=uri),
        )
        self.rendered = self.release_run.model_dump_json()
        ReleaseRecord(store, spec.model, version, self.release_run.release_id).append(ReleaseStarted())

    def publish(self, files: dict[str, bytes], signature: dict[str, Any], **golden: np.ndarray) -> Release:
        """Lay down what training and the converter leave, the golden set included, and publish it."""
        release_run, buffer = self.release_run, io.BytesIO()
        np.savez(buffer, **golden)  # type: ignore[arg-type, unused-ignore]
        source = dict.fromkeys(release_run.spec.required_files(), b"the converter has read it")
        for name, body in {**source, "golden.npz": buffer.getvalue()}.items():
            self.store.write(release_run.incoming_prefix + name, body)
        ready = {"model": release_run.model, "version": release_run.version}
        self.store.write_json(f"{release_run.incoming_prefix}ready.json", ready)
        result = {"signature": signature, **self._made(files)}
        self.store.write_json(f"{release_run.work_prefix}result.json", result)
        PublishModelOperator(task_id="publish", release=self.rendered).run(CONTEXT)
        return self

    def _made(self, files: dict[str, bytes]) -> dict[str, Any]:
        """What the converter tells of a repository, or of one file."""
        configs = {
            path.split("/")[0]: body.decode() for path, body in files.items() if path.endswith(".pbtxt")
        }
        below, entries = "repository/" if configs else "", []
        for path, body in files.items():
            if not path.endswith(".pbtxt"):
                self.store.write(f"{self.release_run.work_prefix}{below}{path}", body)
                sha256 = hashlib.sha256(body).hexdigest()
                entries.append({"path": path, "file": path, "size_bytes": len(body), "sha256": sha256})
        return {"repository": {"files": entries, "configs": configs}} if configs else {"model": entries[0]}

    def prepare(self) -> Release:
        """Copy both versions to staging."""
        operator = PrepareStagingOperator(task_id="prepare", release=self.rendered)
        self.prepared = operator.run(CONTEXT)
        return self

    def synced(self, folder: Path) -> Release:
        """Bring what lies on staging into a folder, as a mounted bucket shows it."""
        for entry in self.store.entries("staging/"):
            target = folder / entry.key.removeprefix("staging/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.store.read(entry.key) or b"")
        return self

    def load(self) -> Release:
        """Load both, as templates render it."""
        limit = str(self.prepared["load_timeout_s"])
        candidate, baseline = self.prepared["candidate"], self.prepared["baseline"]
        loads: list[TritonLoadModelOperator] = [
            LoadCandidateOperator(
                task_id="load",
                release=self.rendered,
                manifest_sha256=self.prepared["manifest_sha256"],
                timeout_s=limit,
                **_rendered(candidate),
            )
        ]
        if baseline is not None:
            loads.append(TritonLoadModelOperator(task_id="base", timeout_s=limit, **_rendered(baseline)))
        for load in loads:
            load.execute(CONTEXT)
        return self

    def validate(self) -> dict[str, Any]:
        """Validate; return the report, which is there whatever it says."""
        staging = json.dumps(self.prepared)
        ValidateModelOperator(task_id="validate", release=self.rendered, staging=staging).run(CONTEXT)
        return self.report

    @property
    def report(self) -> dict[str, Any]:
        """The validation report as it was written."""
        return dict(self.store.read_json(f"{self.release_run.evidence_prefix}validation.json"))

    @property
    def page(self) -> str:
        """The validation page."""
        return (self.store.read(f"{self.release_run.evidence_prefix}validation.html") or b"").decode()


def _rendered(staged: dict[str, Any]) -> dict[str, Any]:
    config, members = json.dumps(staged["config"]), json.dumps(staged["members"])
    fields = {"model_name": staged["name"], "config": config, "members": members}
    return {**fields, "triton_conn_id": STAGING_CONN_ID}


# --- text ---

TEXT_SIGNATURE = {
    "inputs": [
        {"name": "text_input", "datatype": "BYTES", "shape": [-1, 1]},
        {"name": "max_tokens", "datatype": "INT32", "shape": [-1, 1]},
    ],
    "outputs": [{"name": "text_output", "datatype": "BYTES", "shape": [-1, 1]}],
}


def chat(
    store: ModelStoreHook,
    version: int,
    stable: int | None = None,
    words: dict[str, list[str]] | None = None,
    text: str = CHAT,
    **golden: np.ndarray,
) -> Release:
    """Publish a version of the text model; its words lie beside it, as a server of KServe's would find them."""
    files = text_model_files("chat", version, words or WORDS)
    golden = {"text_input": PROMPTS, "label": LABELS, **golden}
    return Release(store, text, version, stable).publish(files, TEXT_SIGNATURE, **golden)


def stages_of(release: Release) -> tuple[Stage, ...]:
    """What the record says of the release's stages."""
    release_run = release.release_run
    return (
        ReleaseRecord(release.store, release_run.model, release_run.version, release_run.release_id)
        .state()
        .stages
    )
