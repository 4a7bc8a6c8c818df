"""A version promoted in a real MLflow arrives in the bucket as training would leave it; what is hostile does not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.failures import SET_ASIDE_KEY
from slipway.hooks.mlflow_registry import MlflowHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import RegistryUnavailableError, TransientError
from slipway_core.intake import IncomingVersion, parse_ready
from slipway_core.record.kinds import ReleaseFinished, ReleaseStarted, VersionRejected
from tests.support.registry.registry_steps import FILES, Bridge
from tests.support.release.intake_steps import found


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that are written, in order."""
    keys: list[str] = []
    put: Callable[..., None] = ModelStoreHook._put

    def noted(self: ModelStoreHook, key: str, *arguments: Any, **options: Any) -> None:
        keys.append(key)
        put(self, key, *arguments, **options)

    monkeypatch.setattr(ModelStoreHook, "_put", noted)
    return keys


def test_a_promoted_version_arrives(bridge: Bridge, written: list[str]) -> None:
    """All files, ready.json last, with digests and the origin; intake offers it; a second sync does nothing."""
    number = bridge.register()
    result = bridge.sync()
    assert (result["version"], result["step"]) == (number, "bring_in")
    there = bridge.arrived(number)
    ready = parse_ready(there.pop("ready.json"), IncomingVersion("digits", number))
    assert there == FILES
    assert ready.files == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    origin = ready.metadata["mlflow"]
    assert isinstance(origin, dict)
    told = bridge.mlflow.version(bridge.name, number)
    assert (origin["run_id"], origin["source"]) == (told["run_id"], told["source"])
    assert len(written) == len(FILES) + 1
    assert written[-1] == f"incoming/digits/{number}/ready.json"
    assert bridge.tags(number) == {"arrival": "arrived"}
    assert [name for name, _ in found(bridge.store)] == [f"digits-{number}"]

    again = bridge.sync()
    assert (again["step"], again["changes"], len(written)) == ("known", 0, len(FILES) + 1)


def test_a_version_without_the_alias_does_not_arrive(bridge: Bridge) -> None:
    """Registering promotes nothing; nor does another alias."""
    number = bridge.register(promoted=False)
    assert bridge.sync()["version"] is None
    bridge.mlflow.promote(bridge.name, number, "champion")
    assert bridge.sync()["version"] is None
    assert bridge.arrived(number) == {}
    bridge.configure(alias="champion")
    assert bridge.sync()["step"] == "bring_in"


def test_files_of_the_run_come_along(bridge: Bridge) -> None:
    """The golden set is no part of the model, but of the run that made it."""
    bridge.configure(run_files={"golden.npz": "evaluation/held-out.npz"})
    number = bridge.register(run_files={"evaluation/held-out.npz": b"golden"})
    bridge.sync()
    assert bridge.arrived(number)["golden.npz"] == b"golden"
    number = bridge.register(run_files={"evaluation/other.npz": b"golden"})
    with pytest.raises(AirflowFailException, match=r"no artifact 'evaluation/held-out\.npz'"):
        bridge.sync()
    assert bridge.arrived(number) == {}


def test_what_was_broken_off_is_gone_on_with(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that ends between two files leaves no ready.json; the next one completes the arrival."""
    number = bridge.register()
    download, fetched = MlflowHook.download, []

    def breaks_off(self: MlflowHook, path: str, *arguments: Any) -> None:
        if fetched:
            raise RegistryUnavailableError("gone")
        fetched.append(path)
        download(self, path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowHook, "download", breaks_off)
        with pytest.raises(RegistryUnavailableError):
            bridge.sync()
    assert len(bridge.arrived(number)) == 1
    bridge.sync()
    assert set(bridge.arrived(number)) == {*FILES, "ready.json"}


def test_other_bytes_under_the_number_stay(bridge: Bridge) -> None:
    """What lies there is told, on the version too, and not overwritten; the news fails the task once."""
    number = bridge.register()
    key = f"incoming/digits/{number}/model.onnx"
    for content in (b"an onnx MODEL", b"of another length"):
        bridge.store.write(key, content)
        with pytest.raises(AirflowFailException, match="not what the registry has"):
            bridge.sync("digits")
        assert bridge.arrived(number)["model.onnx"] == content
        assert "ready.json" not in bridge.arrived(number)
    assert bridge.tags(number)["arrival"].startswith("refused: ")
    bridge.sync()
    (reason,) = bridge.xcoms[SET_ASIDE_KEY]
    assert "model.onnx" in reason
    bridge.store.delete(key)
    assert bridge.sync()["step"] == "bring_in"
    assert bridge.tags(number)["arrival"] == "arrived"


def test_a_version_that_training_left_has_the_number(bridge: Bridge) -> None:
    """An arrival of another origin is a conflict, and nothing is downloaded."""
    number = bridge.register()
    key = f"incoming/digits/{number}/ready.json"
    bridge.store.write_json(key, {"model": "digits", "version": number})
    with pytest.raises(AirflowFailException, match="is not the registry's"):
        bridge.sync()
    assert set(bridge.arrived(number)) == {"ready.json"}


def test_a_registered_model_that_was_made_again_counts_from_one(bridge: Bridge) -> None:
    """The number alone says nothing: the new version 1 is not taken for the one that arrived."""
    number = bridge.register()
    bridge.sync()
    request = {"name": bridge.name}
    bridge.mlflow.call("registered-models/rename", name=bridge.name, new_name=f"{bridge.name} old")
    bridge.mlflow.call("registered-models/create", **request)
    assert bridge.register({"model.onnx": b"another"}) == number
    with pytest.raises(AirflowFailException, match="is not the registry's"):
        bridge.sync()
    assert bridge.arrived(number)["model.onnx"] == FILES["model.onnx"]


def test_a_version_that_was_rejected_before_its_release_is_not_brought_in(bridge: Bridge) -> None:
    """The version's tag says so."""
    number = bridge.register()
    bridge.record(number, VersionRejected(reason="wrong answers", by="bob"))
    with pytest.raises(AirflowFailException, match="is rejected"):
        bridge.sync()
    assert bridge.arrived(number) == {}
    tags = bridge.tags(number)
    assert "rejected" in tags["arrival"]
    assert "wrong answers" in tags["rejected"]
    assert "outcome" not in tags


@pytest.mark.parametrize("is_rejected", [False, True], ids=["failed", "refused and rejected"])
def test_a_released_version_is_not_brought_in_again(bridge: Bridge, is_rejected: bool) -> None:
    """Its arrival may have been cleaned away; the record knows it, and a tag tells of the rejection."""
    number = bridge.register()
    rejected = [VersionRejected(reason="wrong answers", stage="validate")] if is_rejected else []
    bridge.record(number, ReleaseStarted(), ReleaseFinished(outcome="failed"), *rejected)
    assert bridge.sync()["step"] == "known"
    assert bridge.arrived(number) == {}
    assert ("rejected" in bridge.tags(number)) is is_rejected


# --- hostile ---


def loops(bridge: Bridge, number: int) -> None:
    """The folder leads into itself."""
    (bridge.mlflow.folder_of(bridge.name, number) / "again").symlink_to(".")


def climbs(bridge: Bridge, number: int) -> None:
    """A file whose name has `..`."""
    (bridge.mlflow.folder_of(bridge.name, number) / "a..b").write_bytes(b"x")


def hides(bridge: Bridge, number: int) -> None:
    """A hidden file."""
    (bridge.mlflow.folder_of(bridge.name, number) / ".netrc").write_bytes(b"x")


def announces(bridge: Bridge, number: int) -> None:
    """A ready.json of its own."""
    (bridge.mlflow.folder_of(bridge.name, number) / "ready.json").write_bytes(b"{}")


def is_large(bridge: Bridge, number: int) -> None:
    """A file of a terabyte, most of it a hole."""
    with (bridge.mlflow.folder_of(bridge.name, number) / "weights.bin").open("wb") as file:
        os.truncate(file.fileno(), 2**40)


def is_many(bridge: Bridge, number: int) -> None:
    """More files than a version may have."""
    for one in range(1001):
        (bridge.mlflow.folder_of(bridge.name, number) / f"f{one}").touch()


def is_larger_together(bridge: Bridge, number: int) -> None:
    """Each file is small enough."""
    bridge.configure(size_limit_mib=1)
    for one in range(3):
        (bridge.mlflow.folder_of(bridge.name, number) / f"f{one}").write_bytes(bytes(400_000))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (loops, "too many folders"),
        (climbs, "name cannot be used"),
        (hides, "name cannot be used"),
        (announces, "no ready.json"),
        (is_large, "too many bytes in 'weights.bin'"),
        (is_many, "too many files"),
        (is_larger_together, "size_limit_mib"),
    ],
)
def test_hostile_artifacts_are_refused(
    bridge: Bridge, make: Callable[[Bridge, int], None], said: str, written: list[str]
) -> None:
    """Nothing is written, the error says why, and so does the version's tag."""
    number = bridge.register()
    make(bridge, number)
    with pytest.raises(AirflowFailException, match=said):
        bridge.sync()
    assert written == []
    assert bridge.tags(number)["arrival"].startswith("refused: ")


def test_a_file_that_changes_under_the_download(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is longer than it was listed is not taken in."""
    number = bridge.register()
    folder = MlflowHook.folder

    def listed(self: MlflowHook, path: str) -> Any:
        entries = folder(self, path)
        (bridge.mlflow.folder_of(bridge.name, number) / "model.onnx").write_bytes(bytes(5_000_000))
        return entries

    monkeypatch.setattr(MlflowHook, "folder", listed)
    with pytest.raises(AirflowFailException, match="does not have its listed length"):
        bridge.sync()
    assert "model.onnx" not in bridge.arrived(number)


# --- in S3 itself ---


def test_artifacts_in_s3_are_read_where_the_release_file_allows(bridge: Bridge) -> None:
    """A registered model may name any address: only those below a root that is named are read."""
    root = f"s3://{bridge.store.bucket}/mlflow/"
    bridge.store.write("mlflow/1/model.onnx", b"from s3")
    source = f"{root}1"
    answer = bridge.mlflow.call("model-versions/create", name=bridge.name, source=source)
    number = int(answer["model_version"]["version"])
    bridge.mlflow.promote(bridge.name, number)
    with pytest.raises(AirflowFailException, match="in a place that is not read"):
        bridge.sync()
    bridge.configure(artifact_roots=[f"s3://{bridge.store.bucket}/other/"])
    bridge.sync()
    assert bridge.arrived(number) == {}
    bridge.configure(artifact_roots=[root])
    assert bridge.sync()["step"] == "bring_in"
    assert bridge.arrived(number)["model.onnx"] == b"from s3"


# --- MLflow is away ---


def test_a_stopped_mlflow_is_an_error_within_the_limit(bridge: Bridge) -> None:
    """Nothing half is left, and the next sync repairs it."""
    number = bridge.register()
    bridge.answer_limit_s = 1.0
    with bridge.mlflow.stopped(), pytest.raises(RegistryUnavailableError, match="within 1 s"):
        bridge.sync()
    assert bridge.arrived(number) == {}
    bridge.answer_limit_s = 20.0
    assert bridge.sync()["step"] == "bring_in"


def test_mlflow_stops_in_the_middle_of_a_download(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes within the download's limit, no ready.json is there, and the next sync completes it."""
    number = bridge.register()
    bridge.answer_limit_s = 2.0
    download = MlflowHook.download

    def stops(self: MlflowHook, *arguments: Any) -> None:
        with bridge.mlflow.stopped():
            download(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowHook, "download", stops)
        with pytest.raises(TransientError):
            bridge.sync()
    assert bridge.arrived(number) == {}
    bridge.answer_limit_s = 20.0
    bridge.sync()
    assert set(bridge.arrived(number)) == {*FILES, "ready.json"}
