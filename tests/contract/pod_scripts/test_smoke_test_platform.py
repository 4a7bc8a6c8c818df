"""smoke_test.py where the platform fails and not the version: no load of it says anything about the version."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.pods.smoke_models import put_model
from tests.support.pods.support import ObjectStore, Pod
from tests.support.serving.triton_install import triton_install

pytestmark = pytest.mark.timeout(600)


@dataclass
class PodWithServer(Pod):
    """A pod whose image has another program `tritonserver`."""

    programs: Path = Path()

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        given = super().environment(endpoint)
        return {**given, "PATH": os.pathsep.join([str(self.programs), given["PATH"]])}


def broken_pod(smoke_pod: Pod, folder: Path, program: str) -> PodWithServer:
    """A pod whose `tritonserver` is this shell program."""
    folder.mkdir(exist_ok=True)
    (folder / "tritonserver").write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    (folder / "tritonserver").chmod(0o755)
    return PodWithServer(smoke_pod.image, smoke_pod.store, smoke_pod.writable, folder)


def error_of(pod: Pod, store: ObjectStore, prefix: str, name: str = "sound") -> dict[str, Any]:
    """The error that the program leaves for the model of one fault."""
    source, golden, digest = put_model(store, name)
    given = ("--source", source, "--golden", golden, "--manifest-sha256", digest, "--loads", "1")
    return pod.run("smoke_test.py", *given, "--requests", "20", prefix=prefix).error


def server_with_stub(folder: Path, stub: str) -> str:
    """A shell program that becomes the real server, with this in place of the stub that runs a Python model."""
    install = triton_install()
    shutil.copytree(install.directory / "backends", folder / "backends")
    own = folder / "backends" / "python" / install.stub.name
    own.unlink()
    own.write_text(stub, encoding="utf-8")
    own.chmod(0o755)
    options = (
        f"--backend-directory={folder / 'backends'} --disable-auto-complete-config --allow-gpu-metrics=false"
    )
    variables = f"LD_LIBRARY_PATH='{install.library_path}' PATH='{install.venv / 'bin'}':\"$PATH\""
    return f"exec env {variables} '{install.directory / 'bin' / 'tritonserver'}' \"$@\" {options}"


def test_a_stub_that_cannot_begin_is_told_at_once(
    smoke_pod: Pod, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    """Long before a load's limit, with the shell's own words, as the platform's fault; the version is not judged."""
    program = server_with_stub(tmp_path, "#!/no/such/interpreter\n")
    error = error_of(broken_pod(smoke_pod, tmp_path / "bin", program), store, prefix)
    assert error["kind"] == "UserError"
    assert "not judged" in error["remedy"]
    assert "exit code 12" in error["found"]
    assert "triton_python_backend_stub: cannot execute" in error["found"]


def test_a_server_that_dies_of_every_model_is_the_platforms_fault(
    smoke_pod: Pod, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    """A model that is known to be good ends it as well, so the version is not blamed for it."""
    program = server_with_stub(tmp_path, "#!/bin/sh\nkill -SEGV $PPID\nsleep 60\n")
    error = error_of(broken_pod(smoke_pod, tmp_path / "bin", program), store, prefix)
    assert error["kind"] == "UserError"
    assert "'python' loads no model" in error["what"]
    assert "SIGSEGV" in error["found"]


def test_a_server_that_is_ended_from_outside_says_nothing_of_the_version(
    smoke_pod: Pod, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    """The signal with which the kernel's OOM killer ends it is named, and the version is not judged."""
    program = server_with_stub(tmp_path, "#!/bin/sh\nkill -KILL $PPID\nsleep 60\n")
    error = error_of(broken_pod(smoke_pod, tmp_path / "bin", program), store, prefix)
    assert error["kind"] == "UserError"
    assert "SIGKILL" in error["found"]
    assert "not judged" in error["remedy"]


def test_a_server_that_does_not_start_is_told_with_its_last_lines(
    smoke_pod: Pod, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    """Exit code and last words of a server that ends of itself, before it was given any model."""
    pod = broken_pod(
        smoke_pod, tmp_path / "bin", "echo 'libcuda.so.1: cannot open shared object file' >&2; exit 41"
    )
    error = error_of(pod, store, prefix)
    assert error["kind"] == "UserError"
    assert "exit code 41" in error["found"]
    assert "libcuda.so.1" in error["found"]
