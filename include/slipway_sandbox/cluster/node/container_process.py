"""One container of a pod as a local process tree: started, followed, ended with all its children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_sandbox.cluster.node.container_log import ContainerLog
from slipway_sandbox.cluster.node.processes import kill_marked
from slipway_sandbox.cluster.resources import KubeObject
from slipway_sandbox.host.images import IMAGE_VARIABLES

_PYTHON = (sys.executable, "-I", "-S")
_INIT = Path(__file__).with_name("container_init.py")
_READ_ONLY = Path(__file__).with_name("read_only.py")
# Shared memory is the host's own: libraries go there by its path.
_SHM = "/dev/shm"  # noqa: S108 - the container's
_TMP = "/tmp"  # noqa: S108 - the container's
# Triton's Python backend writes to /tmp whatever TMPDIR says: where a volume is mounted there, this image's pods may.
_BRINGS_TRITON = "smoke-test"
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]+)\)")
# What an image's base brings that is no plain Python's: an environment of its requirements does not hold it.
BASE_IMAGE = Path(__file__).with_name("base_image")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# How long the first process may take to end after everything below it was killed.
_END_LIMIT_S = 5.0


class CannotStartError(Exception):
    """The container's command cannot be run, in the words that a container runtime would use."""


class CannotConfigureError(Exception):
    """The container asks for something that the emulator has not got, a Secret for instance."""


@dataclass(frozen=True)
class LaunchPlan:
    """How a container is run: absolute program and arguments, the whole environment, the working directory.

    `writable` are the only folders that it may write to; None: there is no such limit.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    writable: tuple[Path, ...] | None = None


def launch_plan(
    pod: KubeObject,
    container: Mapping[str, Any],
    *,
    image: Path,
    scripts: Path,
    folder: Path,
    given: Mapping[str, str],
) -> LaunchPlan:
    """Decide how to run `container` from the environment `image` (a folder with `bin/`).

    `given` is what the node adds to the environment; what the container sets wins. A variable that names a folder
    where an emptyDir is mounted names the folder that stands for it. Raises CannotConfigureError, CannotStartError.
    """
    mounts = _empty_folders(pod, container, folder.parent / "volumes")
    environment = {
        "PATH": f"{scripts}:{image / 'bin'}:{BASE_IMAGE}:{_SYSTEM_PATH}",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "HOSTNAME": pod["metadata"]["name"],
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **IMAGE_VARIABLES,
        **given,
    }
    if container.get("envFrom"):
        raise CannotConfigureError("envFrom: the emulator has no ConfigMaps and no Secrets")
    for variable in container.get("env", []):
        value = _variable_value(pod, variable, environment)
        environment[variable["name"]] = _mounted(value, mounts)
    words = [*container.get("command", []), *container.get("args", [])]
    argv = [_expanded(word, environment) for word in words]
    if not argv:
        raise CannotStartError("no command specified: an emulated image has no entrypoint")
    program = shutil.which(argv[0], path=environment["PATH"])
    if program is None:
        raise CannotStartError(f'exec: "{argv[0]}": executable file not found in $PATH')
    read_only = (container.get("securityContext") or {}).get("readOnlyRootFilesystem")
    own = tuple(mounts.values())
    if _TMP in mounts and image.name.startswith(_BRINGS_TRITON):
        own += (Path(_TMP),)
    return LaunchPlan((program, *argv[1:]), environment, folder, own if read_only else None)


def _empty_folders(pod: KubeObject, container: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """Return the folder below `root` that stands for each path at which an emptyDir is mounted."""
    empty = {volume["name"] for volume in pod["spec"].get("volumes", []) if "emptyDir" in volume}
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
    return {path: root / name for path, name in mounts.items() if name in empty and path != _SHM}


def _mounted(value: str, mounts: Mapping[str, Path]) -> str:
    """Return a path below a mount as it is on this machine; any other value as it is."""
    for path, folder in mounts.items():
        if value == path or value.startswith(f"{path.rstrip('/')}/"):
            return f"{folder}{value.removeprefix(path.rstrip('/'))}"
    return value


def _variable_value(pod: KubeObject, variable: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    source = variable.get("valueFrom")
    if not source:
        return _expanded(variable.get("value", ""), environment)
    path = source.get("fieldRef", {}).get("fieldPath", "")
    known = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.serviceAccountName": pod["spec"]["serviceAccountName"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    if path in known:
        return str(known[path])
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    asked = path or ", ".join(source) or "nothing"
    raise CannotConfigureError(f"environment variable {variable['name']}: the emulator cannot supply {asked}")


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """Return the text with each `$(NAME)` replaced by the variable's value, if there is one, and `$$` by `$`."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return environment.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def _limited(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the command, run by a program that takes writing from it where the container has a read-only root."""
    if plan.writable is None:
        return plan.argv
    return (*_PYTHON, str(_READ_ONLY), *map(str, plan.writable), "--", *plan.argv)


class ContainerProcess:
    """A running container. Its output goes to `log`, which is closed when the container has ended.

    `mark` is in the environment of all its processes and of no others (`NAME=VALUE` as a pair).
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        log: ContainerLog,
        mark: tuple[str, str],
    ) -> None:
        self._process = process
        self._log = log
        self._mark = mark
        self._pump = asyncio.create_task(_copy(output, log))

    @classmethod
    async def start(cls, plan: LaunchPlan, log: ContainerLog, mark: tuple[str, str]) -> ContainerProcess:
        """Start the container under a first process of its own; raises CannotStartError."""
        for each in (plan.folder, *(plan.writable or ())):
            each.mkdir(parents=True, exist_ok=True)
        # A pipe of our own: asyncio's would make `wait` last until whoever inherited it has closed it.
        read_end, write_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(*_PYTHON, str(_INIT), str(os.getpid()), "--", *_limited(plan)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=asyncio.subprocess.STDOUT,
                cwd=plan.folder,
                env={**plan.environment, mark[0]: mark[1]},
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_end)
            raise CannotStartError(f"cannot start {plan.argv[0]}: {error.strerror}") from error
        finally:
            os.close(write_end)
        log.open()
        return cls(process, await _reader(read_end), log, mark)

    async def wait(self) -> int:
        """Wait for the end of the container and of its log; return the exit code (128 + N after signal N)."""
        code = await self._process.wait()
        if code < 0:
            # Its first process was killed and could not clean up.
            await asyncio.to_thread(kill_marked, *self._mark)
        # More than one may wait here, so nobody cancels what the others wait for.
        await asyncio.wait({self._pump}, timeout=_END_LIMIT_S)
        self._log.close()
        return 128 - code if code < 0 else code

    def terminate(self) -> None:
        """Ask the command's process group to end (SIGTERM)."""
        self._signal(signal.SIGTERM)

    async def kill(self) -> None:
        """End the command and everything below it at once; return when that has happened."""
        self._signal(signal.SIGUSR2)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _END_LIMIT_S)
            return
        self._signal(signal.SIGKILL)
        await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


async def _reader(read_end: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    return reader


async def _copy(output: asyncio.StreamReader, log: ContainerLog) -> None:
    while data := await output.read(64 * 1024):
        log.write(data)
