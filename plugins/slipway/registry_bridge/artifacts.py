"""The files of a registry's version: listed within limits, then fetched one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.hooks.mlflow_registry import MlflowHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import ArrivalRefusedError
from slipway_core.operations.registry_answers import (
    FILES_LIMIT,
    BucketFolder,
    FileTally,
    ServedFolder,
    artifact_folder,
)
from slipway_core.spec.registry import MlflowModel

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Artifact:
    """Where one file lies: a path that MLflow's server hands out, or a key in a bucket."""

    place: ServedFolder | BucketFolder
    size_bytes: int


class Artifacts:
    """Lists and fetches the artifacts of versions of one registered model.

    :param aws_conn_id: the connection for what lies in S3 itself.
    """

    def __init__(
        self, mlflow: MlflowHook, spec: MlflowModel, aws_conn_id: str, answer_limit_s: float
    ) -> None:
        self._mlflow = mlflow
        self._spec = spec
        self._aws_conn_id = aws_conn_id
        self._answer_limit_s = answer_limit_s

    def files(self, number: int, run_id: str) -> dict[str, Artifact]:
        """Return the files of a version by their names, those that come from its run among them.

        :raises ArrivalRefusedError: they lie elsewhere, are too many, too large, or have names that none may have.
        """
        tally = FileTally(self._spec.size_limit_mib * _MIB)
        found: dict[str, Artifact] = {}
        uri = self._mlflow.download_uri(self._spec.registered_model, number)
        self._walk(artifact_folder(uri, self._spec.artifact_roots), tally, found)
        if self._spec.run_files:
            if not run_id:
                raise ArrivalRefusedError(
                    f"version {number} names no run",
                    expected="the run that has `registry.mlflow.run_files`",
                    remedy="register the model from a run",
                )
            self._add_run_files(self._mlflow.run_artifact_uri(run_id), tally, found)
        if not found:
            raise ArrivalRefusedError(
                f"version {number} has no files", remedy="check what was logged with it"
            )
        return found

    def fetch(self, artifact: Artifact, target: Path) -> None:
        """Write one file to `target`.

        :raises UserError: it does not have its listed length.
        """
        match artifact.place:
            case ServedFolder(path):
                self._mlflow.download(path, target, artifact.size_bytes)
            case BucketFolder(bucket, key):
                self._store(bucket).download(key, target, artifact.size_bytes)

    def _walk(
        self, folder: ServedFolder | BucketFolder, tally: FileTally, found: dict[str, Artifact]
    ) -> None:
        if isinstance(folder, BucketFolder):
            for name, size in self._in_bucket(folder).items():
                tally.file(name, size)
                found[name] = Artifact(BucketFolder(folder.bucket, f"{folder.prefix}{name}"), size)
            return
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            for entry in self._mlflow.folder(f"{folder.path}/{inside}".rstrip("/")):
                name = f"{inside}{entry.name}"
                if entry.is_folder:
                    tally.folder(name)
                    waiting.append(f"{name}/")
                else:
                    tally.file(name, entry.size_bytes)
                    found[name] = Artifact(ServedFolder(f"{folder.path}/{name}"), entry.size_bytes)

    def _add_run_files(self, uri: str, tally: FileTally, found: dict[str, Artifact]) -> None:
        for name, path in self._spec.run_files.items():
            above, _, own = path.rpartition("/")
            folder = artifact_folder(uri, self._spec.artifact_roots, above)
            if isinstance(folder, BucketFolder):
                size = self._in_bucket(folder).get(own)
                place: ServedFolder | BucketFolder = BucketFolder(folder.bucket, f"{folder.prefix}{own}")
            else:
                sizes = {
                    one.name: one.size_bytes for one in self._mlflow.folder(folder.path) if not one.is_folder
                }
                size, place = sizes.get(own), ServedFolder(f"{folder.path}/{own}")
            if size is None:
                raise ArrivalRefusedError(
                    f"the run has no artifact {path!r}",
                    expected="what `registry.mlflow.run_files` names",
                    remedy="log it with the run, or correct the release file",
                )
            tally.file(name, size)
            found[name] = Artifact(place, size)

    def _in_bucket(self, folder: BucketFolder) -> Mapping[str, int]:
        """Return the files below a folder in S3, one more than may be; objects that stand for folders are left out."""
        entries = self._store(folder.bucket).entries(folder.prefix, most=FILES_LIMIT + 1)
        names = ((entry.key.removeprefix(folder.prefix), entry.size_bytes) for entry in entries)
        return {name: size for name, size in names if name and not name.endswith("/")}

    def _store(self, bucket: str) -> ModelStoreHook:
        return ModelStoreHook(bucket, self._aws_conn_id, answer_limit_s=self._answer_limit_s)
