"""tritonserver below folders whose names a shell would take apart: everything that reaches that shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton_http

from slipway_core.errors import ServerUnavailableError
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.serving.models import write_repository
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

ODD = 'it\'s "so" $HOME (a); & b | `c` * ß 模型'


def doubled(ports: TritonPorts) -> list[float]:
    """What the model answers to 1 and 2."""
    with triton_http.InferenceServerClient(f"127.0.0.1:{ports.http}") as client:
        x = triton_http.InferInput("x", [1, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2]], dtype=np.float32))
        answer = client.infer("table", [x]).as_numpy("y")
        assert answer is not None
        return [float(one) for one in answer.flat]


def moved(install: TritonInstall, folder: Path) -> TritonInstall:
    """The server's folder and its libraries, below this one."""
    shutil.copytree(install.directory, folder / "server")
    libraries = []
    for number, one in enumerate(install.library_path.split(os.pathsep)):
        (folder / f"lib-{number}").symlink_to(one)
        libraries.append(str(folder / f"lib-{number}"))
    return replace(install, directory=folder / "server", library_path=os.pathsep.join(libraries))


@pytest.mark.parametrize("folder", ["a b", ODD, "long/" * 40], ids=["a space", "all of them", "a long path"])
def test_a_model_loads_below_any_folder(install: TritonInstall, tmp_path: Path, folder: str) -> None:
    """Server, backends, libraries and repository lie there, and the model loads and answers."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    own = moved(install, place)
    own.check()
    server = TritonServer(own, write_repository(place / "r"), TritonPorts.free(), log_path=place / "log")
    server.start()
    try:
        server.wait_ready(30)
        assert doubled(server.ports) == [2.0, 4.0]
    finally:
        server.stop(grace_s=0.5)


@pytest.mark.parametrize("program", ["services.triton", "services.triton_program"])
def test_a_program_that_becomes_the_server_hands_the_folders_on(
    install: TritonInstall, tmp_path: Path, program: str
) -> None:
    """`python -m slipway_sandbox.services.triton`, and the `tritonserver` of an emulated pod, load below any folder."""
    place = tmp_path / ODD
    place.mkdir()
    repository, ports = write_repository(place / "r"), TritonPorts.free()
    if program == "services.triton":
        argv = [sys.executable, "-m", "slipway_sandbox.services.triton", "--venv", str(install.venv)]
        argv += ["--install-root", str(place / "root"), "--repository", str(repository)]
        argv += ["--metrics-port", str(ports.metrics)]
    else:
        # The pod's image lies beside that of the server, and its program takes its own Python's place for that.
        start = f"import sys; sys.prefix = {str(install.venv.parent / 'smoke-test')!r}; "
        start += "from slipway_sandbox.services.triton_program import main; main()"
        argv = [sys.executable, "-c", start, f"--model-repository={repository}", "--http-address=127.0.0.1"]
        argv += ["--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1", f"--metrics-port={ports.metrics}"]
    argv += ["--http-port", str(ports.http)] if "-m" in argv else [f"--http-port={ports.http}"]
    argv += ["--grpc-port", str(ports.grpc)] if "-m" in argv else [f"--grpc-port={ports.grpc}"]
    process = subprocess.Popen(argv, start_new_session=True)
    probe = TritonServer(install, repository, ports)
    try:
        wait_until(probe.is_ready, "the server is ready", limit_s=90)
        assert doubled(ports) == [2.0, 4.0]
    finally:
        process.terminate()
        process.wait(60)


def test_a_server_that_ends_of_itself_blames_no_model(
    install: TritonInstall, repository: Path, tmp_path: Path
) -> None:
    """Exit code and last words are told at once, as of a server that is away."""
    shutil.copytree(install.directory / "bin", tmp_path / "server" / "bin")
    program = tmp_path / "server" / "bin" / "tritonserver"
    program.write_text("#!/bin/sh\necho 'libcuda.so.1: cannot open'\nexit 41\n", encoding="utf-8")
    own = replace(install, directory=tmp_path / "server")
    server = TritonServer(own, repository, TritonPorts.free(), log_path=tmp_path / "log")
    server.start()
    with pytest.raises(ServerUnavailableError, match=r"exit code 41; libcuda\.so\.1: cannot open"):
        server.wait_ready(30)
    server.stop()
