"""Models that are released as one: convert → publish → stage → load → answer, with the real converters and Triton."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slipway.hooks.record import ReleaseRecord
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator, Staging
from slipway.operators.triton import TritonLoadModelOperator, TritonUnloadModelOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.ticket import ReleaseTicket, StableVersion

from include.model_release.ensemble import bundle_config_sha256
from include.model_release.errors import LoadRefusedError, ModelInvalidError, SlipwayError
from include.model_release.manifest import Manifest
from include.model_release.spec import parse_release_spec
from include.sandbox.images import build_image
from include.triton_config import from_pbtxt
from tests.contract.serving.ensembles import ensemble_files, python_files

pytestmark = pytest.mark.timeout(180)

PROJECT_ROOT = Path(__file__).resolve().parents[3]
POD_SCRIPTS = PROJECT_ROOT / "include" / "pod_scripts"
CONTEXT: Any = {}
ROWS = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
ROLLOUT = "validation: {output: y, label: label, accuracy_min: 0}\n"
ENSEMBLE = f"model: prices\nsource: {{format: repository}}\nconversion: {{target: ensemble}}\n{ROLLOUT}"
PYTHON = f"model: scale\nsource: {{format: python}}\nconversion: {{target: python}}\n{ROLLOUT}"


def golden_set() -> bytes:
    """Rows with the label that a model which keeps their order would give."""
    buffer = io.BytesIO()
    np.savez(buffer, x=ROWS, label=np.ones(len(ROWS), np.int64))
    return buffer.getvalue()


class Release:
    """One release's steps up to staging, as the DAG would have them run."""

    def __init__(
        self, store: ModelStoreHook, release_file: str, version: int, stable: int | None = None
    ) -> None:
        self.store = store
        spec = parse_release_spec(release_file, "release.yaml")
        uri = f"s3://{store.bucket}/models/{spec.model}/{stable}/repository"
        self.ticket = ReleaseTicket(
            release_id=f"{spec.model}-{version}",
            model=spec.model,
            version=version,
            bucket=store.bucket,
            spec=spec,
            stable=None if stable is None else StableVersion(version=stable, storage_uri=uri),
        )
        self.rendered = self.ticket.model_dump_json()
        record = ReleaseRecord(store, spec.model, version, self.ticket.release_id)
        record.append("release_started", stable_storage_uri=uri)

    def land(self, files: dict[str, bytes]) -> None:
        """Training leaves the files, the golden set and, last, ready.json."""
        incoming, source = self.ticket.incoming_prefix, self.ticket.spec.source
        for path, content in files.items():
            self.store.write(incoming + source.location + path, content)
        self.store.write(incoming + source.golden_file, golden_set())
        ready = {"model": self.ticket.model, "version": self.ticket.version}
        self.store.write_json(f"{incoming}ready.json", ready)

    def convert(self) -> dict[str, Any]:
        """Run the converter with the arguments that the operator gives its pod; return what it left."""
        operator = ConvertModelOperator(task_id="convert", release=self.rendered, namespace="models")
        program, *arguments = operator.arguments_for(self.ticket)
        target = self.ticket.spec.conversion.target
        subprocess.run(
            [program, *arguments],
            executable=str(POD_SCRIPTS / program),
            env={
                "PATH": os.pathsep.join([str(build_image(target) / "bin"), os.defpath]),
                "AWS_ACCESS_KEY_ID": "slipway-test",
                "AWS_SECRET_ACCESS_KEY": "slipway-test",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": self.store.client.meta.endpoint_url,
            },
            check=False,
            timeout=60,
        )
        result = self.store.read_json(operator.result_key(self.ticket))
        assert result["error"] is None, result["error"]
        return dict(result)

    def publish(self) -> Manifest:
        """Publish what was converted."""
        PublishModelOperator(task_id="publish", release=self.rendered).run(CONTEXT)
        return ModelRegistry(self.store).require(self.ticket.model, self.ticket.version)

    def stage(self) -> Staging:
        """Copy candidate and stable version to staging, and load both, as templates render it."""
        prepared = PrepareStagingOperator(task_id="prepare", release=self.rendered).run(CONTEXT)
        staging = Staging.model_validate(prepared)
        candidate, baseline = prepared["candidate"], prepared["baseline"]
        loads: list[TritonLoadModelOperator] = [
            LoadCandidateOperator(task_id="load", release=self.rendered, **load_of(candidate))
        ]
        if baseline is not None:
            loads.append(TritonLoadModelOperator(task_id="load_baseline", **load_of(baseline)))
        for load in loads:
            load.execute(CONTEXT)
        return staging

    def published(self, files: dict[str, bytes]) -> Release:
        """Go all the way to the published version."""
        self.land(files)
        self.convert()
        self.publish()
        return self


def load_of(staged: dict[str, Any]) -> dict[str, Any]:
    """The load operator's fields as the DAG's templates render them."""
    config, members = json.dumps(staged["config"]), json.dumps(staged["members"])
    return {"model_name": staged["name"], "config": config, "members": members, "timeout_s": 60.0}


def answers(hook: TritonHook, name: str, version: int) -> list[float]:
    """What the first row becomes."""
    row = ROWS[:1]
    return list(hook.infer(name, version, {"x": row}, ["y"])["y"][0].tolist())


def test_python_model_from_training_to_staging(store: ModelStoreHook, hook: TritonHook) -> None:
    """A Python model is checked, published with its own configuration, pinned, staged, and answers there."""
    release = Release(store, PYTHON, 3)
    release.land({**python_files(5.0), "helpers/__pycache__/x.pyc": b"", "requirements.txt": b"numpy\n"})
    result = release.convert()
    assert result["program"]["requirements"] == ["numpy"]
    manifest = release.publish()
    assert set(manifest.files) == {"scale/config.pbtxt", "scale/3/model.py", "scale/3/requirements.txt"}
    assert [str(one) for one in manifest.signature.outputs] == ["FP32[-1, 2]"]
    assert {"model.py", "config.pbtxt", "golden.npz", "requirements.txt"} == set(manifest.source.files)
    staging = release.stage()
    assert staging.model_names == ("scale",)
    assert answers(hook, "scale", 3) == [5, 10]


def test_ensemble_from_training_to_staging(store: ModelStoreHook, hook: TritonHook) -> None:
    """An ensemble is published as one repository whose members are pinned to its version, and answers on staging."""
    release = Release(store, ENSEMBLE, 7)
    release.land(ensemble_files(scale=3.0, lookup=2.0))
    release.convert()
    manifest = release.publish()
    assert set(manifest.files) == {
        *("prices/7/members.json", "scale/7/model.py", "lookup/7/model.onnx"),
        *(f"{name}/config.pbtxt" for name in ("lookup", "prices", "scale")),
    }
    texts = ModelRegistry(store).config_texts(manifest)
    configs = {name: from_pbtxt(text) for name, text in texts.items()}
    assert bundle_config_sha256(configs) == manifest.config_sha256
    steps = configs["prices"]["ensemble_scheduling"]["step"]
    assert [(step["model_name"], step["model_version"]) for step in steps] == [("scale", 7), ("lookup", 7)]
    assert all(one["version_policy"] == {"specific": {"versions": [7]}} for one in configs.values())
    release.stage()
    assert answers(hook, "prices", 7) == [6, 12]


def test_candidate_and_stable_side_by_side_keep_to_their_own_members(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """Two versions of an ensemble stand beside each other on staging, each over its own members; both go again."""
    Release(store, ENSEMBLE, 1).published(ensemble_files(scale=1.0, lookup=2.0))
    release = Release(store, ENSEMBLE, 2, stable=1).published(ensemble_files(scale=1.5, lookup=3.0))
    staging = release.stage()
    assert staging.baseline is not None
    assert answers(hook, staging.candidate.name, 2) == [4.5, 9]
    assert answers(hook, staging.baseline.name, 1) == [2, 4]
    assert {entry["name"] for entry in hook.index() if entry.get("state") == "READY"} == {
        *("prices", "prices__scale", "prices__lookup"),
        *("prices_baseline", "prices_baseline__scale", "prices_baseline__lookup"),
    }
    ValidateModelOperator(
        task_id="validate", release=release.rendered, staging=staging.model_dump_json()
    ).run(CONTEXT)
    unload = TritonUnloadModelOperator(task_id="unload", model_names=json.dumps(staging.model_names))
    unload.execute(CONTEXT)
    assert [entry for entry in hook.index() if entry.get("state") == "READY"] == []


def test_later_candidate_replaces_the_members_of_the_one_before(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """After a release that ended without unloading, the next one is served by its own members, not by those."""
    Release(store, ENSEMBLE, 1).published(ensemble_files(scale=1.0, lookup=2.0)).stage()
    assert answers(hook, "prices", 1) == [2, 4]
    Release(store, ENSEMBLE, 2).published(ensemble_files(scale=4.0, lookup=2.0)).stage()
    assert answers(hook, "prices", 2) == [8, 16]
    assert hook.ready_versions("prices__scale") == {2}


def test_member_that_does_not_load_is_named(store: ModelStoreHook, hook: TritonHook) -> None:
    """Where a member fails to load, the refusal names that member and nothing of the ensemble gets ready."""
    files = ensemble_files()
    files["lookup/1/model.onnx"] = b"no model"
    release = Release(store, ENSEMBLE, 1).published(files)
    with pytest.raises(Exception, match="prices__lookup") as caught:
        release.stage()
    assert isinstance(caught.value.__cause__, LoadRefusedError)
    assert hook.ready_versions("prices") == frozenset()


def test_configuration_that_the_server_did_not_take_is_noticed(
    store: ModelStoreHook, hook: TritonHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that is served with another configuration than the release's is told, not measured."""
    release = Release(store, ENSEMBLE, 1).published(ensemble_files(scale=2.0))
    real: Callable[..., Any] = TritonHook.load

    def meddled(self: TritonHook, name: str, config: dict[str, Any]) -> None:
        if name == "prices__scale":
            config = {**config, "parameters": {"factor": {"string_value": "9"}}}
        real(self, name, config)

    monkeypatch.setattr(TritonHook, "load", meddled)
    with pytest.raises(Exception, match=r"parameters\.factor\.string_value") as caught:
        release.stage()
    assert isinstance(caught.value.__cause__, LoadRefusedError)


def test_ensemble_is_the_same_content_or_refused(store: ModelStoreHook) -> None:
    """Publishing the same ensemble again changes nothing; another member's bytes under the number are refused."""
    release = Release(store, ENSEMBLE, 1).published(ensemble_files())
    before = release.publish()
    assert release.publish() == before
    release.land(ensemble_files(scale=8.0))
    release.convert()
    with pytest.raises(SlipwayError, match="already published with other content"):
        release.publish()


def test_source_that_training_did_not_write_is_refused(store: ModelStoreHook) -> None:
    """A file of the repository that is not what ready.json names stops the publishing."""
    release = Release(store, ENSEMBLE, 1)
    release.land(ensemble_files())
    ready = {"model": "prices", "version": 1, "files": {"repository/scale/1/model.py": "0" * 64}}
    store.write_json(f"{release.ticket.incoming_prefix}ready.json", ready)
    release.convert()
    with pytest.raises(ModelInvalidError, match=r"repository/scale/1/model\.py"):
        release.publish()
