"""The node's images: one that is missing is built from its folder, as a kubelet pulls one from a registry."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from slipway_sandbox.cluster.node.processes import CLUSTER_MARK
from slipway_sandbox.cluster.settings import NodeSettings
from slipway_sandbox.host.images import ImageError, image_name, image_source

_PROJECT_ROOT = Path(__file__).resolve().parents[4]
# A build that failed is not tried again sooner: what it needs, such as the network, is hardly back before.
_BACK_OFF_S = 20.0
_LAST_LINES = 8


class ImagePuller:
    """Builds each missing image once, however many pods wait for it, and goes on when one of them has gone."""

    def __init__(self, node: NodeSettings) -> None:
        self._node = node
        self._builds: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, tuple[float, ImageError]] = {}

    def present(self, reference: str) -> Path | None:
        """Return the folder of an image that is there, or None.

        :raises ImageError: the reference holds no valid name.
        """
        folder = self._node.images_dir / image_name(reference)
        return folder if (folder / "bin" / "python").exists() else None

    def check(self, reference: str) -> None:
        """Raise ImageError where no image of this name can be built, or it could not be a moment ago."""
        name = image_name(reference)
        image_source(name, self._node.image_sources_dir)
        failed_at, error = self._failed.get(name, (0.0, None))
        if error is not None and time.monotonic() - failed_at < _BACK_OFF_S:
            raise error

    async def pull(self, reference: str) -> None:
        """Return when the image is there.

        :raises ImageError: its message says why it cannot be built.
        """
        name = image_name(reference)
        if name not in self._builds:
            task = asyncio.create_task(self._build(name), name=f"image {name}")
            task.add_done_callback(lambda _: self._builds.pop(name, None))
            self._builds[name] = task
        await asyncio.shield(self._builds[name])

    async def stop(self) -> None:
        """End the builds that are under way."""
        builds = list(self._builds.values())
        for build in builds:
            build.cancel()
        await asyncio.gather(*builds, return_exceptions=True)

    async def _build(self, name: str) -> None:
        try:
            await self._run(name)
        except ImageError as error:
            self._failed[name] = (time.monotonic(), error)
            raise
        self._failed.pop(name, None)

    async def _run(self, name: str) -> None:
        places = ["--root", str(self._node.images_dir), "--sources", str(self._node.image_sources_dir)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slipway_sandbox.host.images", *places, name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=_PROJECT_ROOT,
            env={**os.environ, CLUSTER_MARK: str(self._node.state_dir)},
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            last_lines = " ".join(output.decode(errors="replace").split("\n")[-_LAST_LINES:]).strip()
            raise ImageError(f"{last_lines} To see all of it: python -m slipway_sandbox.host.images {name}")
