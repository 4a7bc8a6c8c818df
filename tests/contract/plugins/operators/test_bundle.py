"""Models that are released as one: convert → publish → stage → load → answer, with the real converters and Triton."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_triton.hooks.triton import TritonHook as ProviderHook
from airflow_provider_triton.operators import TritonUnloadModelOperator
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.validate import ValidateModelOperator
from slipway.registry.registry import ModelRegistry
from slipway_core.errors import LoadRefusedError, ModelInvalidError, SlipwayError
from slipway_core.triton_config.ensemble import bundle_config_sha256
from tests.support.release.ensemble_release import ENSEMBLE, ROLLOUT, ROWS, land, published
from tests.support.release.release_steps import CONTEXT, Release
from tests.support.serving.ensembles import ensemble_files, python_files

pytestmark = pytest.mark.timeout(600)

PYTHON = f"model: scale\nsource: {{format: python}}\nconversion: {{target: python}}\n{ROLLOUT}"


def answers(hook: TritonHook, name: str, version: int) -> list[float]:
    """What the first row becomes."""
    row = ROWS[:1]
    return list(hook.infer(name, version, {"x": row}, ["y"])["y"][0].tolist())


def test_python_model_from_training_to_staging(store: ModelStoreHook, hook: TritonHook) -> None:
    """A Python model is checked, published with its own configuration, pinned, staged, and answers there."""
    release = Release(store, PYTHON, 3)
    land(release, {**python_files(5.0), "helpers/__pycache__/x.pyc": b"", "requirements.txt": b"numpy\n"})
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
    land(release, ensemble_files(scale=3.0, lookup=2.0))
    release.convert()
    manifest = release.publish()
    assert set(manifest.files) == {
        *("prices/7/members.json", "scale/7/model.py", "lookup/7/model.onnx"),
        *(f"{name}/config.pbtxt" for name in ("lookup", "prices", "scale")),
    }
    configs = ModelRegistry(store).configs(manifest)
    assert bundle_config_sha256(configs) == manifest.config_sha256
    steps = configs["prices"]["ensemble_scheduling"]["step"]
    assert [(step["model_name"], step["model_version"]) for step in steps] == [("scale", 7), ("lookup", 7)]
    assert all(one["version_policy"] == {"specific": {"versions": [7]}} for one in configs.values())
    release.stage()
    assert answers(hook, "prices", 7) == [6, 12]


def test_member_whose_configuration_contradicts_itself_is_not_published(store: ModelStoreHook) -> None:
    """What Triton's core refuses of a member is found before anything is published, and the member is named."""
    files = ensemble_files()
    files["lookup/config.pbtxt"] += b"dynamic_batching { preferred_batch_size: [ 64 ] }"
    release = Release(store, ENSEMBLE, 7)
    land(release, files)
    release.convert()
    with pytest.raises(ModelInvalidError, match=r"config\.pbtxt of lookup: `dynamic_batching"):
        release.publish()
    assert ModelRegistry(store).manifest("prices", 7) is None


def test_candidate_and_stable_side_by_side_keep_to_their_own_members(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """Two versions of an ensemble stand beside each other on staging, each over its own members; both go again."""
    published(Release(store, ENSEMBLE, 1), ensemble_files(scale=1.0, lookup=2.0))
    release = published(Release(store, ENSEMBLE, 2, stable=1), ensemble_files(scale=1.5, lookup=3.0))
    staging = release.stage()
    assert staging.baseline is not None
    assert answers(hook, staging.candidate.name, 2) == [4.5, 9]
    assert answers(hook, staging.baseline.name, 1) == [2, 4]
    assert {entry.name for entry in hook.index() if entry.is_ready} == {
        *("prices", "prices__scale", "prices__lookup"),
        *("prices_baseline", "prices_baseline__scale", "prices_baseline__lookup"),
    }
    ValidateModelOperator(
        task_id="validate", release=release.rendered, staging=staging.model_dump_json()
    ).run(CONTEXT)
    unload = TritonUnloadModelOperator(
        task_id="unload", model_names=json.dumps(staging.model_names), triton_conn_id=hook.triton_conn_id
    )
    unload.execute(CONTEXT)
    assert [entry for entry in hook.index() if entry.is_ready] == []


def test_later_candidate_replaces_the_members_of_the_one_before(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """After a release that ended without unloading, the next one is served by its own members, not by those."""
    published(Release(store, ENSEMBLE, 1), ensemble_files(scale=1.0, lookup=2.0)).stage()
    assert answers(hook, "prices", 1) == [2, 4]
    published(Release(store, ENSEMBLE, 2), ensemble_files(scale=4.0, lookup=2.0)).stage()
    assert answers(hook, "prices", 2) == [8, 16]
    assert hook.ready_versions("prices__scale") == {2}


def test_member_that_does_not_load_is_named(store: ModelStoreHook, hook: TritonHook) -> None:
    """Where a member fails to load, the refusal names that member and nothing of the ensemble gets ready."""
    files = ensemble_files()
    files["lookup/1/model.onnx"] = b"no model"
    release = published(Release(store, ENSEMBLE, 1), files)
    with pytest.raises(Exception, match="prices__lookup") as caught:
        release.stage()
    assert isinstance(caught.value.__cause__, LoadRefusedError)
    assert hook.ready_versions("prices") == frozenset()


def test_configuration_that_the_server_did_not_take_is_noticed(
    store: ModelStoreHook, hook: TritonHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that is served with another configuration than the release's is told, not measured."""
    release = published(Release(store, ENSEMBLE, 1), ensemble_files(scale=2.0))
    real: Callable[..., Any] = ProviderHook.load

    def meddled(self: ProviderHook, name: str, config: dict[str, Any], files: None = None) -> None:
        if name == "prices__scale":
            config = {**config, "parameters": {"factor": {"string_value": "9"}}}
        real(self, name, config)

    monkeypatch.setattr(ProviderHook, "load", meddled)
    with pytest.raises(Exception, match=r"parameters\.factor\.string_value") as caught:
        release.stage()
    assert isinstance(caught.value.__cause__, LoadRefusedError)


def test_ensemble_is_the_same_content_or_refused(store: ModelStoreHook) -> None:
    """Publishing the same ensemble again changes nothing; another member's bytes under the number are refused."""
    release = published(Release(store, ENSEMBLE, 1), ensemble_files())
    before = release.publish()
    assert release.publish() == before
    land(release, ensemble_files(scale=8.0))
    release.convert()
    with pytest.raises(SlipwayError, match="already published with other content"):
        release.publish()


def test_source_that_training_did_not_write_is_refused(store: ModelStoreHook) -> None:
    """A file of the repository that is not what ready.json names stops the publishing."""
    release = Release(store, ENSEMBLE, 1)
    land(release, ensemble_files())
    ready = {"model": "prices", "version": 1, "files": {"repository/scale/1/model.py": "0" * 64}}
    store.write_json(f"{release.release_run.incoming_prefix}ready.json", ready)
    release.convert()
    with pytest.raises(ModelInvalidError, match=r"repository/scale/1/model\.py"):
        release.publish()
