"""A release of the Python model `scale` whose conversion has ended: what training has left, and what the pod has."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.publishing.manifest import FileEntry
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.record.state import ReleaseState
from slipway_core.spec.release_file import apply_overrides, parse_release_spec
from tests.support.serving.ensembles import python_files

CONTEXT: Any = {}
MODEL = "scale"
SBOM = b'{"bomFormat": "CycloneDX", "components": []}'
TRAINED: dict[str, Any] = {
    "dataset_version": "2026-10",
    "accuracy": 0.97,
    "trained_at": "2026-11-01T12:00:00Z",
    "framework": "numpy 1.26.4",
    "metadata": {"run": "a1b2"},
}
TOOLS = {"convert_python": "1", "python": "3.11.2"}
_SPEC = parse_release_spec(
    f"model: {MODEL}\nsource: {{format: python}}\nconversion: {{target: python}}\n"
    "validation: {output: y, label: label, accuracy_min: 0}\n",
    "scale.yaml",
)


def release_run_of(
    store: ModelStoreHook, version: int = 1, *, stable: int | None = None, **publish: Any
) -> ReleaseRun:
    """The release run of a release; `publish` is what its release file says under that name."""
    uri = f"s3://{store.bucket}/models/{MODEL}/{stable}/repository"
    return ReleaseRun(
        release_id=f"{MODEL}-{version}",
        model=MODEL,
        version=version,
        bucket=store.bucket,
        spec=apply_overrides(_SPEC, {"publish": publish}, "the test") if publish else _SPEC,
        stable=None if stable is None else StableVersion(version=stable, storage_uri=uri),
    )


def convert(
    store: ModelStoreHook, release_run: ReleaseRun, *, factor: float = 2.0, sbom: bool = True
) -> None:
    """Lay down what training and the converter's pod leave, and open the record."""
    files = python_files(factor)
    golden = io.BytesIO()
    np.savez(golden, x=np.ones((2, 2), np.float32), label=np.ones(2, np.int64))
    for name, content in {**files, "golden.npz": golden.getvalue()}.items():
        store.write(release_run.incoming_prefix + name, content)
    store.write_json(
        f"{release_run.incoming_prefix}ready.json",
        {"model": MODEL, "version": release_run.version, **TRAINED},
    )
    program, path = files["model.py"], f"{MODEL}/{release_run.version}/model.py"
    store.write(f"{release_run.work_prefix}repository/{path}", program)
    if sbom:
        store.write(f"{release_run.work_prefix}sbom.json", SBOM)
    tensor = {"datatype": "FP32", "shape": [-1, 2]}
    result = {
        "repository": {
            "files": [{"path": path, **FileEntry.of(program).model_dump()}],
            "configs": {MODEL: files["config.pbtxt"].decode()},
        },
        "signature": {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]},
        "tools": TOOLS,
    }
    store.write(f"{release_run.work_prefix}result.json", json.dumps(result).encode())
    record_of(store, release_run).append(ReleaseStarted(stable_storage_uri=None))


def record_of(store: ModelStoreHook, release_run: ReleaseRun) -> ReleaseRecord:
    """The release's record."""
    return ReleaseRecord(store, release_run.model, release_run.version, release_run.release_id)


def state_of(store: ModelStoreHook, release_run: ReleaseRun) -> ReleaseState:
    """What the release's record amounts to."""
    return record_of(store, release_run).state()


def run(operator: Any, release_run: ReleaseRun, **arguments: Any) -> Any:
    """Execute an operator for the release, as Airflow does."""
    return operator(task_id="task", release=release_run.model_dump_json(), **arguments).execute(CONTEXT)
