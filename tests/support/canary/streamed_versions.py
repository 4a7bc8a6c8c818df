"""Published versions of a model that may be asked over streams, and what stands for the ingress and a revision."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from slipway.hooks.ingress import Endpoint
from slipway.release_run import ReleaseRun
from slipway.traffic.streams.answer import StreamedAnswer
from slipway_core.errors import InputMissingError, StoreUnavailableError
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.pbtxt import from_pbtxt

DECOUPLED = "model_transaction_policy { decoupled: true }"
PLAIN = ""
STABLE, CANDIDATE = "http://prev-digits.example", "http://latest-digits.example"


class VersionsDouble:
    """Answers as `ModelRegistry` does for the candidate, version 3, and stable, version 2.

    :param configs: of each version, the configuration of each of its models.
    """

    def __init__(self, rows: int = 3, **configs: dict[str, str]) -> None:
        self.rows = rows
        self.versions: dict[int, dict[str, str]] = {3: {"digits": PLAIN}, 2: {"digits": PLAIN}}
        self.versions |= {int(name.removeprefix("v")): config for name, config in configs.items()}
        self.away = False
        self.golden_error: Exception | None = None

    def require(self, model: str, version: int) -> Manifest:
        """Return the manifest, unless the store is away."""
        if self.away:
            raise StoreUnavailableError("the object store did not answer")
        if version not in self.versions:
            raise InputMissingError(f"version {version} of {model!r} is not published")
        return Manifest(
            model=model,
            version=version,
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            files={"digits/config.pbtxt": FileEntry.of(b"")},
            config_sha256="0" * 64,
            signature=ModelSignature(
                inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),),
                outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 1)),),
            ),
            source=Provenance(files={}),
        )

    def configs(self, manifest: Manifest) -> dict[str, dict[str, Any]]:
        """Return the configurations that were published."""
        return {
            name: from_pbtxt(f'name: "{name}" {text}')
            for name, text in self.versions[manifest.version].items()
        }

    def golden_set(self, manifest: Manifest) -> bytes:
        """Return the npz."""
        if self.golden_error is not None:
            raise self.golden_error
        file = io.BytesIO()
        x = np.arange(2 * self.rows, dtype=np.float32).reshape(self.rows, 2)
        np.savez(file, x=x, label=np.zeros(self.rows, dtype=np.int64))
        return file.getvalue()


class WayDouble:
    """Leads every host to one address."""

    def __init__(self, base_url: str = "http://127.0.0.1:9") -> None:
        self.base_url = base_url

    def endpoint(self, url: str) -> Endpoint:
        """Answer as `IngressHook` with a connection."""
        return Endpoint(self.base_url, urlsplit(url).netloc)


class AskerDouble:
    """Answers as a `StreamAsker` does: by a fault, or never."""

    def __init__(self, answer: Callable[[], StreamedAnswer]) -> None:
        self.answer = answer
        self.hangs = False
        self.bodies: list[bytes] = []
        self.is_closed = False

    async def ask(self, body: bytes) -> StreamedAnswer:
        """Answer, unless it hangs."""
        self.bodies.append(body)
        if self.hangs:
            await asyncio.sleep(60)
        return self.answer()

    async def close(self) -> None:
        """Note it."""
        self.is_closed = True


def with_streaming(release_run: ReleaseRun, **streaming: Any) -> ReleaseRun:
    """Return the release run with other settings of `rollout.streaming`."""
    rollout = release_run.spec.rollout
    settings = rollout.streaming.model_copy(update=streaming)
    spec = release_run.spec.model_copy(update={"rollout": rollout.model_copy(update={"streaming": settings})})
    return release_run.model_copy(update={"spec": spec})
