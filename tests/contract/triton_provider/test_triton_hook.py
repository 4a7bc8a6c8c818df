"""TritonHook and the operators on it, against a real tritonserver; and against servers that misbehave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from airflow_provider_triton.errors import LoadRefusedError, ModelInvalidError
from airflow_provider_triton.hooks.triton import TritonHook
from slipway_core.triton_config.build import pin_versions
from tests.support.triton_provider.table import ROW, UNKNOWN_ROW

pytestmark = pytest.mark.timeout(600)


def test_load_serves_exactly_the_pinned_version(hook: TritonHook, config: dict[str, Any]) -> None:
    """Of the versions in the repository the pinned one is ready and answers, and no other."""
    hook.load("table", pin_versions(config, [2]))
    assert hook.ready_versions("table") == {2}
    assert hook.infer("table", 2, {"x": ROW}, ["y"])["y"].tolist() == [[3, 6]]
    hook.load("table", pin_versions(config, [1]))
    assert hook.ready_versions("table") == {1}
    assert hook.infer("table", 1, {"x": ROW}, ["y"])["y"].tolist() == [[2, 4]]


def test_metadata_and_configuration_are_the_servers(hook: TritonHook, config: dict[str, Any]) -> None:
    """Metadata make a signature, and the configuration says what was pinned."""
    hook.load("table", pin_versions(config, [2]))
    metadata = hook.metadata("table", 2)
    assert [(one.name, one.datatype, one.shape) for one in metadata.inputs] == [("x", "FP32", (-1, 2))]
    assert [one.name for one in metadata.outputs] == ["y"]
    assert hook.config("table", 2)["version_policy"]["specific"]["versions"] in ([2], ["2"])


def test_model_that_was_never_loaded_has_no_ready_version(hook: TritonHook) -> None:
    """A name that the server does not know, and one that is not loaded, have no versions that are ready."""
    assert hook.ready_versions("table") == hook.ready_versions("nothing") == frozenset()


def test_unload_of_what_is_not_loaded(hook: TritonHook) -> None:
    """Unloading a model that is not loaded, or not even known, is no error."""
    hook.unload("table")
    hook.unload("nothing")


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        ("broken", {}, "cannot read the model"),
        ("table", {"platform": "no_such_platform"}, "failed to poll"),
        ("table", {"version_policy": {"specific": {"versions": [7]}}}, "at least one version"),
        ("nothing", {}, "failed to poll"),
    ],
    ids=["cut short", "unknown platform", "version not there", "no such model"],
)
def test_refused_load_says_why(
    hook: TritonHook, config: dict[str, Any], model: str, change: dict[str, Any], words: str
) -> None:
    """A model that the server will not load is LoadRefusedError with the server's own words."""
    asked = {**pin_versions(config, [1]), "name": model, **change}
    with pytest.raises(LoadRefusedError, match=f"refuses to load '{model}'") as caught:
        hook.load(model, asked)
    assert words in (caught.value.found or "")
    assert hook.ready_versions(model) == frozenset()


def test_refused_load_leaves_the_old_version_serving(hook: TritonHook, config: dict[str, Any]) -> None:
    """A load that fails takes nothing away from who is served now."""
    hook.load("table", pin_versions(config, [1]))
    with pytest.raises(LoadRefusedError):
        hook.load("table", pin_versions(config, [7]))
    assert hook.infer("table", 1, {"x": ROW}, ["y"])["y"].tolist() == [[2, 4]]


@pytest.mark.parametrize(
    ("row", "output", "words"),
    [(UNKNOWN_ROW, "y", "out of"), (ROW, "z", "'z'"), (np.ones((1, 3), np.float32), "y", "shape")],
    ids=["the model fails", "unknown output", "wrong shape"],
)
def test_request_that_is_answered_with_an_error(
    hook: TritonHook, config: dict[str, Any], row: np.ndarray, output: str, words: str
) -> None:
    """An error answer to a request is about the model, not about the server."""
    hook.load("table", pin_versions(config, [1]))
    with pytest.raises(ModelInvalidError, match="'table' version 1") as caught:
        hook.infer("table", 1, {"x": row}, [output])
    assert words in (caught.value.found or "")


def test_stream_answers_each_request_by_its_place(hook: TritonHook, config: dict[str, Any]) -> None:
    """Many requests over one stream, more than are under way at once: each gets its own response, in its place."""
    hook.load("table", pin_versions(config, [2]))
    requests = [{"x": np.array([[1, number]], dtype=np.float32)} for number in range(30)]
    answers = hook.infer_stream("table", 2, requests, ["y"], concurrency=4)
    assert [[response["y"][0, 1] for response in one] for one in answers] == [[3.0 * n] for n in range(30)]
    assert hook.infer_stream("table", 2, [], ["y"]) == []


def test_stream_that_is_answered_with_an_error_can_be_followed_by_another(
    hook: TritonHook, config: dict[str, Any]
) -> None:
    """An error is the model's, and the hook is as good as before."""
    hook.load("table", pin_versions(config, [1]))
    with pytest.raises(ModelInvalidError, match="'table' version 1"):
        hook.infer_stream("table", 1, [{"x": ROW}, {"x": UNKNOWN_ROW}], ["y"])
    assert len(hook.infer_stream("table", 1, [{"x": ROW}], ["y"])) == 1
