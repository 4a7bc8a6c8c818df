"""One revision as it runs: its repository downloaded from S3, its tritonserver, and what becomes of them.

As a pod of KServe's would, it downloads before it starts, is started again with growing pauses when it ends,
and says how it fares.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from slipway_core.errors import InputMissingError, SlipwayError, StoreUnavailableError
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

log = logging.getLogger(__name__)

RunPhase = Literal["stopped", "pending", "ready", "failed"]
POLL_S = 0.05
LIVENESS_POLL_S = 0.5


@dataclass(frozen=True)
class RunPolicy:
    """How patient a revision is: seconds to get ready, pauses before each new start, and when to give up."""

    ready_timeout_s: float = 120.0
    restart_pauses_s: tuple[float, ...] = (2.0, 5.0, 10.0, 30.0)
    progress_deadline_s: float = 600.0
    exit_timeout_s: int = 15


class RevisionRun:
    """The server of one revision; `on_change` is called on the loop whenever `phase` changes.

    `directory` is its own; `prepare` gives the server folder and may take its time or raise.

    `phase` is "pending" until first ready, "ready" while it answers, "failed" with `message` and `exit_code`
    after a download or a start went wrong (it is tried again), "stopped" before `start` and after `stop`.
    """

    def __init__(
        self,
        name: str,
        storage_uri: str,
        directory: Path,
        prepare: Callable[[], TritonInstall],
        environment: Mapping[str, str],
        on_change: Callable[[], None],
        policy: RunPolicy | None = None,
    ) -> None:
        self.name = name
        self.storage_uri = storage_uri
        self.directory = directory
        self.phase: RunPhase = "stopped"
        self.message = ""
        self.exit_code = 0
        self.ports = TritonPorts.free()
        self._prepare = prepare
        self._environment = dict(environment)
        self._on_change = on_change
        self._policy = policy or RunPolicy()
        self._server: TritonServer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to download and serve, in the background; nothing happens if that is under way."""
        if self._task is None:
            self._become("pending")
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"revision {self.name}")

    async def stop(self, grace_s: float | None = None) -> None:
        """End the server, answering what is in flight, and remove what was downloaded.

        Take the revision out of the router before: an open connection holds the server for its exit timeout,
        or for `grace_s` where that is given. A second call with a shorter grace cuts the first one short.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._end_server(grace_s)
        await asyncio.to_thread(shutil.rmtree, self.directory / "repository", ignore_errors=True)
        self.phase = "stopped"

    async def _run(self) -> None:
        started = time.monotonic()
        failures = 0
        while True:
            was_ready = False
            try:
                await self._serve()
                self._become("ready")
                was_ready = True
                failures = 0
                await self._until_ended()
            except SlipwayError as error:
                self._fail(str(error))
            except Exception as error:  # a revision may fail in any way; its service must hear of it
                log.exception("revision %s", self.name)
                self._fail(f"{type(error).__name__}: {error}")
            await self._end_server()
            if not was_ready and time.monotonic() - started > self._policy.progress_deadline_s:
                log.warning("revision %s: no progress, given up", self.name)
                return
            pauses = self._policy.restart_pauses_s
            await asyncio.sleep(0 if was_ready else pauses[min(failures, len(pauses) - 1)])
            failures += 1

    async def _serve(self) -> None:
        """Download if need be, start, and wait until ready."""
        began = time.monotonic()
        repository = self.directory / "repository"
        if not repository.is_dir():
            await asyncio.to_thread(download_repository, self.storage_uri, repository, self._environment)
        downloaded = time.monotonic()
        server = TritonServer(
            await asyncio.to_thread(self._prepare),
            repository,
            self.ports,
            log_path=self.directory / "triton.log",
            exit_timeout_s=self._policy.exit_timeout_s,
        )
        self._server = server
        try:
            server.start()
        except SlipwayError:
            self.ports = TritonPorts.free()  # someone took a port meanwhile
            raise
        limit = time.monotonic() + self._policy.ready_timeout_s
        while not await asyncio.to_thread(server.is_ready):
            server.require_alive()
            if time.monotonic() > limit:
                raise SlipwayError(
                    f"Revision {self.name} is not ready",
                    expected=f"ready within {self._policy.ready_timeout_s:g} s",
                    found=server.failure(),
                )
            await asyncio.sleep(POLL_S)
        log.info(
            "revision %s: ready after %.2f s, %.2f s of it download",
            self.name,
            time.monotonic() - began,
            downloaded - began,
        )

    async def _until_ended(self) -> None:
        server = self._server
        while server is not None and server.exit_code() is None:  # noqa: ASYNC110 - a process tells nobody
            await asyncio.sleep(LIVENESS_POLL_S)
        if server is not None:
            self._fail(f"the container exited with code {server.exit_code()}: {server.failure()}")

    async def _end_server(self, grace_s: float | None = None) -> None:
        server = self._server
        if server is not None:
            await asyncio.to_thread(server.stop, grace_s)
            self._server = None

    def _fail(self, message: str) -> None:
        code = self._server.exit_code() if self._server else None
        self.message, self.exit_code = message, code if code is not None else 1
        log.warning("revision %s: %s", self.name, message)
        self._become("failed")

    def _become(self, phase: RunPhase) -> None:
        if phase != self.phase:
            self.phase = phase
            self._on_change()


def download_repository(storage_uri: str, destination: Path, environment: Mapping[str, str]) -> int:
    """Copy everything under an `s3://` URL to the folder `destination`, whole or not at all; returns the file
    count.

    `environment` holds AWS_* as a pod would have them. Raises `InputMissingError` where nothing lies there or
    the URL is invalid, `StoreUnavailableError` where the store does not answer.
    """
    url = urlsplit(storage_uri)
    prefix = url.path.strip("/") + "/"
    if url.scheme != "s3" or not url.netloc or prefix == "/":
        raise InputMissingError(
            "The storageUri of an InferenceService cannot be used here",
            expected="s3://BUCKET/PATH",
            found=storage_uri or "none",
        )
    partial = destination.with_name(f"{destination.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        client = _s3_client(environment)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=url.netloc, Prefix=prefix)
        keys = [str(one["Key"]) for page in pages for one in page.get("Contents", [])]
        files = {key: _place(partial, key.removeprefix(prefix)) for key in keys if not key.endswith("/")}
        for path in files.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda key: client.download_file(url.netloc, key, str(files[key])), files))
    except (BotoCoreError, ClientError, OSError) as error:
        raise StoreUnavailableError(f"Cannot download {storage_uri}", found=str(error)) from error
    if not files:
        raise InputMissingError(f"Nothing found at {storage_uri}", expected="a Triton model repository")
    shutil.rmtree(destination, ignore_errors=True)
    partial.rename(destination)
    return len(files)


def _place(directory: Path, relative: str) -> Path:
    """Return where an object's file belongs; a key that would lead out of the folder is refused."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or relative.startswith("/"):
        raise InputMissingError("An object's key is not a path in a repository", found=relative)
    return directory.joinpath(*parts)


def _s3_client(environment: Mapping[str, str]) -> Any:
    return boto3.session.Session(
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
        region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
    ).client(
        "s3",
        endpoint_url=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        config=Config(connect_timeout=3, read_timeout=30, retries={"max_attempts": 3, "mode": "standard"}),
    )
