"""The emulator's settings at its start: the file `cluster.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway_sandbox.host.images import IMAGE_SOURCES

# KServe's own default of inferenceservice-config's defaultDeploymentMode.
DEFAULT_DEPLOYMENT_MODE = "Knative"


class ClusterConfigError(Exception):
    """The configuration cannot be used; the message names file, key, what was expected and what was found."""


@dataclass(frozen=True)
class NodeSettings:
    """What the one node of the cluster is made of. An image that is not in `images_dir` is built from its folder in
    `image_sources_dir`.

    `environment` is given to every pod (what IAM roles for service accounts would inject); `allocatable`
    holds the extended resources there are (`nvidia.com/gpu`): a pod that asks for more stays Pending.
    """

    state_dir: Path
    images_dir: Path
    pod_scripts_dir: Path
    image_sources_dir: Path = IMAGE_SOURCES
    environment: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, float] = field(default_factory=dict)
    name: str = "sandbox"


@dataclass(frozen=True)
class ClusterSettings:
    """The whole of `cluster.json`; `raw` keeps it as it was read, for parts that are not this package's."""

    host: str
    port: int
    token: str
    node: NodeSettings
    namespaces: tuple[str, ...] | None
    watch_history: int
    kubeconfig: Path | None
    raw: Mapping[str, Any]

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"http://{self.host}:{self.port}"

    @property
    def default_deployment_mode(self) -> str:
        """What KServe's webhook writes into an InferenceService that names no mode."""
        return str(self.raw.get("kserve", {}).get("default_deployment_mode", DEFAULT_DEPLOYMENT_MODE))


def load_settings(path: Path) -> ClusterSettings:
    """Read `cluster.json` and the token file it names; raises ClusterConfigError.

    Keys: host (default 127.0.0.1), port, token_file, state_dir, images_dir, pod_scripts_dir; optional:
    image_sources_dir, node_env, allocatable, namespaces, watch_history, kubeconfig (written at start), kserve (for the
    controller). Relative paths are relative to the folder of the file.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ClusterConfigError(
            f"{path} cannot be read. Expected the cluster's settings as JSON; found: {error}. "
            f"Name the right file with --config."
        ) from error
    if not isinstance(raw, dict):
        raise ClusterConfigError(
            f"{path} is not what it should be. Expected an object with settings; found {type(raw).__name__}. "
            "Name the right file with --config."
        )
    value = _Reader(path, raw)
    token_path = value.path("token_file")
    try:
        token = token_path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ClusterConfigError(
            f"{path}: token_file cannot be read. Expected a file with the bearer token; found: {error}. "
            "Write one there, readable by you alone."
        ) from error
    if not token:
        raise ClusterConfigError(
            f"{path}: the file that token_file names is empty. Put a bearer token into it."
        )
    namespaces = value.get("namespaces", list, None)
    return ClusterSettings(
        host=value.get("host", str, "127.0.0.1"),
        port=value.get("port", int),
        token=token,
        node=NodeSettings(
            state_dir=value.path("state_dir"),
            images_dir=value.path("images_dir"),
            pod_scripts_dir=value.path("pod_scripts_dir"),
            image_sources_dir=value.path("image_sources_dir")
            if "image_sources_dir" in raw
            else IMAGE_SOURCES,
            environment={key: str(item) for key, item in value.get("node_env", dict, {}).items()},
            allocatable={key: float(item) for key, item in value.get("allocatable", dict, {}).items()},
        ),
        namespaces=None if namespaces is None else tuple(namespaces),
        watch_history=value.get("watch_history", int, 2000),
        kubeconfig=value.path("kubeconfig") if "kubeconfig" in raw else None,
        raw=raw,
    )


_MISSING = object()


@dataclass(frozen=True)
class _Reader:
    """Typed access to the keys of one file, with errors that name it."""

    source: Path
    raw: Mapping[str, Any]

    def get(self, key: str, kind: type, default: Any = _MISSING) -> Any:
        value = self.raw.get(key, default)
        if value is _MISSING:
            raise ClusterConfigError(
                f"{self.source}: {key} is missing. Expected {kind.__name__}; found nothing. Add it."
            )
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ClusterConfigError(
                f"{self.source}: {key} has the wrong type. Expected {kind.__name__}; "
                f"found {type(value).__name__}. Correct it."
            )
        return value

    def path(self, key: str) -> Path:
        name: str = self.get(key, str)
        return self.source.parent.joinpath(name).resolve()
