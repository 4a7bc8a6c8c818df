"""MLflow's model registry and artifact server, over MLflow's documented REST API.

MLflow's own client cannot be installed beside Airflow: it wants an older cachetools than Airflow has.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from airflow.sdk import BaseHook

from slipway.hooks.http_access import HttpAccess, Use, within
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import InputMissingError, RegistryUnavailableError, UserError
from slipway_core.operations.registry_answers import (
    FolderEntry,
    RegisteredModel,
    RegistryVersion,
    parse_folder,
    parse_registered_model,
    parse_registry_version,
    parse_registry_versions,
    parse_text,
)

T = TypeVar("T")

VERSIONS_LIMIT = 50
"""Of a registered model, so many of its newest versions are looked at."""

_API = "api/2.0/mlflow"
_ARTIFACTS = "api/2.0/mlflow-artifacts/artifacts"
_ABSENT = "RESOURCE_DOES_NOT_EXIST"
_SLOWEST_BYTES_S = 512 * 1024

MLFLOW = Use(
    name="MLflow",
    server="MLflow's registry",
    unavailable=RegistryUnavailableError,
    slow="check that it runs, and its load; the next sync tries again",
    long="check which server answers at that address",
)


class MlflowHook(BaseHook):
    """One MLflow server; `slipway.hooks.http_access` says what its connection may hold.

    :param mlflow_conn_id: the connection.
    :param answer_limit_s: how long an answer may take, from the first byte to the last; a download has more time, by
        its size.
    """

    conn_name_attr = "mlflow_conn_id"
    default_conn_name = "mlflow_default"

    def __init__(self, mlflow_conn_id: str = default_conn_name, answer_limit_s: float = 20.0) -> None:
        super().__init__()
        self.mlflow_conn_id = mlflow_conn_id
        self.answer_limit_s = answer_limit_s
        self._access = HttpAccess(mlflow_conn_id, MLFLOW)
        if len(self._access.hosts) != 1:
            raise self._access.unusable("it does not name exactly one server", "one host")

    def registered_model(self, name: str) -> RegisteredModel:
        """Return a registered model with its aliases.

        :raises InputMissingError: there is none of that name.
        """
        return parse_registered_model(self._get("registered-models/get", {"name": name}))

    def version(self, name: str, number: int) -> RegistryVersion:
        """Return a version of a registered model.

        :raises InputMissingError: there is none of that number.
        """
        return parse_registry_version(self._get("model-versions/get", {"name": name, "version": str(number)}))

    def newest_versions(self, name: str) -> list[RegistryVersion]:
        """Return the newest versions of a registered model, newest first."""
        asked = {
            "filter": f"name='{name}'",
            "order_by": "version_number DESC",
            "max_results": str(VERSIONS_LIMIT),
        }
        return parse_registry_versions(self._get("model-versions/search", asked))

    def download_uri(self, name: str, number: int) -> str:
        """Return where a version's artifacts lie."""
        asked = {"name": name, "version": str(number)}
        return parse_text(self._get("model-versions/get-download-uri", asked), "artifact_uri")

    def run_artifact_uri(self, run_id: str) -> str:
        """Return where a run's artifacts lie."""
        return parse_text(self._get("runs/get", {"run_id": run_id}), "run", "info", "artifact_uri")

    def folder(self, path: str) -> list[FolderEntry]:
        """Return what lies in a folder of artifacts that the server hands out.

        :raises ArrivalRefusedError: something in it has a name that no file may have here.
        """
        url = f"{self._host}/{_ARTIFACTS}?{urlencode({'path': path})}"
        return list(parse_folder(self._decided(*self._ask("GET", url), f"the folder {path!r}")))

    def download(self, path: str, target: Path, size_bytes: int) -> None:
        """Write an artifact that the server hands out into a file.

        :param size_bytes: what the listing says that it has.
        :raises UserError: it has another size.
        """
        url = f"{self._host}/{_ARTIFACTS}/{quote(path)}"

        async def reading() -> tuple[int, int]:
            async with self._access.session() as session:
                with target.open("wb") as file:
                    return await self._access.download(session, url, file, size_bytes)

        status, size = self._within(self.answer_limit_s + size_bytes / _SLOWEST_BYTES_S, reading())
        if status != 200:
            raise self._failed(status, f"the artifact {path!r}")
        if size != size_bytes:
            raise UserError(
                f"MLflow's artifact {path!r} does not have its listed length",
                expected=f"{size_bytes} bytes",
                found=f"{size} bytes or more" if size > size_bytes else f"{size} bytes",
                remedy="find out what writes to it, then register the model again",
            )

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let an alias lead to a version."""
        self._send("POST", "registered-models/alias", name=name, alias=alias, version=str(version))

    def delete_alias(self, name: str, alias: str) -> None:
        """Take an alias away; one that is not there is no error."""
        self._send("DELETE", "registered-models/alias", name=name, alias=alias)

    def set_tag(self, name: str, version: int, key: str, value: str) -> None:
        """Set a tag of a version."""
        self._send("POST", "model-versions/set-tag", name=name, version=str(version), key=key, value=value)

    def delete_tag(self, name: str, version: int, key: str) -> None:
        """Take a tag of a version away; one that is not there is no error."""
        self._send("DELETE", "model-versions/delete-tag", name=name, version=str(version), key=key)

    @property
    def _host(self) -> str:
        return self._access.hosts[0]

    def _get(self, call: str, asked: Mapping[str, str]) -> Any:
        url = f"{self._host}/{_API}/{call}?{urlencode(asked)}"
        return self._decided(*self._ask("GET", url), f"{call} of {asked}")

    def _send(self, method: str, call: str, **fields: str) -> None:
        status, content = self._ask(method, f"{self._host}/{_API}/{call}", json.dumps(fields).encode())
        if method == "DELETE" and _code(content) == _ABSENT:
            return
        self._decided(status, content, f"{call} of {fields}")

    def _ask(self, method: str, url: str, body: bytes = b"") -> tuple[int, bytes]:
        async def asking() -> tuple[int, bytes]:
            async with self._access.session() as session:
                return await self._access.request(
                    session, method, url, body, "application/json" if body else ""
                )

        return self._within(self.answer_limit_s, asking())

    def _within(self, limit_s: float, reading: Coroutine[Any, Any, T]) -> T:
        return within(limit_s, reading, f"MLflow at {self._host}", MLFLOW)

    def _decided(self, status: int, content: bytes, what: str) -> Any:
        if status == 200:
            return parse_json(content, f"MLflow's answer to {what}")
        code = _code(content)
        if status == 404 and code == _ABSENT:
            raise InputMissingError(
                f"MLflow does not have {what}",
                expected="something registered",
                found=code,
                remedy=f"check `registry.mlflow` and the connection {self.mlflow_conn_id!r}",
            )
        raise self._failed(status, what, code)

    def _failed(self, status: int, what: str, code: str = "") -> UserError | RegistryUnavailableError:
        error: type[UserError | RegistryUnavailableError]
        error = (
            UserError if 400 <= status < 500 and status not in (408, 425, 429) else RegistryUnavailableError
        )
        return error(
            f"MLflow at {self._host} refuses {what}",
            expected="HTTP 200",
            found=f"HTTP {status} {code}".rstrip(),
            remedy=f"check the connection {self.mlflow_conn_id!r}, and the log of the server",
        )


def _code(content: bytes) -> str:
    """Return MLflow's word for an error; empty where the answer holds none."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    code = answer.get("error_code") if isinstance(answer, Mapping) else None
    return code[:100] if isinstance(code, str) else ""
