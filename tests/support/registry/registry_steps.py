"""Runs of `registry_sync`, as its tasks see them, over a registered model of one test's own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.rest import ApiException

from slipway.operators.registry.sync import ListRegistryModelsOperator, SyncRegistryOperator
from slipway.release_record.record import ReleaseRecord
from slipway_core.record.kinds import EventData
from slipway_core.rollout.observation import STABLE_URI
from tests.support.cluster.emulator import Emulator, inference_service
from tests.support.registry.mlflow_server import MlflowServer

if TYPE_CHECKING:
    from slipway.hooks.s3_store import ModelStoreHook

FILES = {"model.onnx": b"an onnx model", "extra/labels.txt": b"zero one"}
SERVICES = ("serving.kserve.io", "v1beta1", "models", "inferenceservices")


class Bridge:
    """The model `digits` and its registered model; what a sync says lies in `xcoms` afterwards."""

    def __init__(
        self, store: ModelStoreHook, mlflow: MlflowServer, emulator: Emulator, folder: Path, name: str
    ) -> None:
        self.store = store
        self.mlflow = mlflow
        self.name = name
        self.folder = folder
        self.xcoms: dict[str, Any] = {}
        self.answer_limit_s = 20.0
        self._custom = client.CustomObjectsApi(emulator.api_client())
        mlflow.ensure(name)
        self.configure()

    def configure(self, **registry: Any) -> None:
        """Write the release file."""
        spec = {
            "model": "digits",
            "source": {"format": "onnx"},
            "rollout": {"namespace": "models"},
            "registry": {"mlflow": {"registered_model": self.name, **registry}},
        }
        (self.folder / "digits.yaml").write_text(json.dumps(spec), encoding="utf-8")

    def register(self, files: dict[str, bytes] | None = None, *, promoted: bool = True, **more: Any) -> int:
        """Register a version, and promote it."""
        number = self.mlflow.register(self.name, FILES if files is None else files, **more)
        if promoted:
            self.mlflow.promote(self.name, number)
        return number

    def sync(self, model: str | None = None) -> dict[str, Any]:
        """Run both tasks; `model` is what the run's form says."""
        self.xcoms.clear()
        context: Any = {
            "params": {"model": model},
            "ti": SimpleNamespace(xcom_push=self.xcoms.__setitem__),
        }
        folder = {"releases_dir": str(self.folder)}
        assert ListRegistryModelsOperator(task_id="list", **folder).execute(context) == ["digits"]
        return SyncRegistryOperator(
            task_id="sync",
            model="digits",
            bucket=self.store.bucket,
            answer_limit_s=self.answer_limit_s,
            **folder,
        ).execute(context)

    def arrived(self, version: int) -> dict[str, bytes]:
        """Return what lies under the version's prefix, by name."""
        prefix = f"incoming/digits/{version}/"
        keys = [entry.key for entry in self.store.entries(prefix)]
        return {key.removeprefix(prefix): self.store.read(key) or b"" for key in keys}

    def aliases(self) -> dict[str, int]:
        """Return which version each alias leads to."""
        return self.mlflow.aliases(self.name)

    def tags(self, version: int) -> dict[str, str]:
        """Return Slipway's tags of a version, by their names without the prefix."""
        tags = self.mlflow.tags(self.name, version)
        return {key.removeprefix("slipway."): value for key, value in tags.items()}

    def record(self, version: int, *events: EventData) -> None:
        """Write events into a version's record."""
        record = ReleaseRecord(self.store, "digits", version, f"digits-{version}")
        for event in events:
            record.append(event)

    def uri(self, version: int) -> str:
        """Return the storageUri of a version."""
        return f"s3://{self.store.bucket}/models/digits/{version}/repository"

    def serve(self, version: int, *, before: int | None = None) -> None:
        """Let the InferenceService serve a version, and note which one was live before it."""
        self.remove_service()
        body: dict[str, Any] = inference_service("digits", uri=self.uri(version))
        body["metadata"]["namespace"] = "models"
        if before is not None:
            body["metadata"].setdefault("annotations", {})[STABLE_URI] = self.uri(before)
        self._custom.create_namespaced_custom_object(*SERVICES, body)

    def remove_service(self) -> None:
        """Delete the InferenceService, if there is one."""
        try:
            self._custom.delete_namespaced_custom_object(*SERVICES, "digits")
        except ApiException as error:
            if error.status != 404:
                raise
