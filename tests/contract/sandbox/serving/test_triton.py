"""The wheel's tritonserver with our python-based backend, as a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from slipway_core.errors import LoadRefusedError, ServerUnavailableError, SlipwayError
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.serving.models import table_model, write_repository
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server(
    install: TritonInstall, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonServer]:
    """A running server over the model that doubles."""
    one = TritonServer(
        install, repository, TritonPorts.free(), log_path=tmp_path_factory.mktemp("log") / "log"
    )
    one.start()
    try:
        one.wait_ready(30)
        yield one
    finally:
        one.stop(grace_s=0.5)


def infer_http(server: TritonServer, rows: list[list[float]], **options: str) -> np.ndarray:
    """Ask over HTTP for y of the given rows."""
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.ports.http}") as client:
        x = triton_http.InferInput("x", [len(rows), 2], "FP32")
        x.set_data_from_numpy(np.array(rows, dtype=np.float32))
        return np.asarray(client.infer("table", [x], **options).as_numpy("y"))


def infer_grpc(server: TritonServer, rows: list[list[float]]) -> np.ndarray:
    """Ask over gRPC for y of the given rows."""
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{server.ports.grpc}") as client:
        x = triton_grpc.InferInput("x", [len(rows), 2], "FP32")
        x.set_data_from_numpy(np.array(rows, dtype=np.float32))
        return np.asarray(client.infer("table", [x]).as_numpy("y"))


def test_answers_over_http_and_grpc(server: TritonServer) -> None:
    """An unmodified onnxruntime_onnx repository answers with real values over both protocols."""
    assert infer_http(server, [[1, 2], [3, 4]]).tolist() == [[2, 4], [6, 8]]
    assert infer_grpc(server, [[5, 6]]).tolist() == [[10, 12]]


def test_bad_request_fails_alone_in_its_batch(server: TritonServer) -> None:
    """Of four requests in one batch the one that cannot be run fails, and the others are answered."""

    def ask(first: float) -> list[list[float]] | str:
        try:
            answer: list[list[float]] = infer_grpc(server, [[first, 1]]).tolist()
        except InferenceServerException as error:
            return str(error)
        return answer

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, [1, 2, 50, 3]))
    assert answers[:2] == [[[2, 2]], [[4, 2]]]
    assert answers[3] == [[6, 2]]
    assert "out of" in answers[2]


def test_batches_are_formed(server: TritonServer) -> None:
    """Requests that come together are run together, so the test above did see a batch fall apart."""
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.ports.http}") as client:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda first: infer_grpc(server, [[first, 1]]), [1, 2, 3, 4]))
        # A request is counted after it was answered.
        wait_until(lambda: largest_batch(client) > 1, "a batch of more than one request to be counted")


def largest_batch(client: triton_http.InferenceServerClient) -> int:
    """Return how many rows the largest batch had."""
    (statistics,) = client.get_inference_statistics("table")["model_stats"]
    return max((int(entry["batch_size"]) for entry in statistics["batch_stats"]), default=0)


def test_versions_side_by_side(install: TritonInstall, tmp_path: Path) -> None:
    """Two versions of one model answer apart when the request names one."""
    more = "version_policy: { all { } }"
    write_repository(tmp_path / "r", versions={1: table_model(2.0), 2: table_model(3.0)}, more=more)
    server = TritonServer(install, tmp_path / "r", TritonPorts.free(), log_path=tmp_path / "log")
    server.start()
    try:
        server.wait_ready(30)
        assert infer_http(server, [[1, 1]], model_version="1").tolist() == [[2, 2]]
        assert infer_http(server, [[1, 1]], model_version="2").tolist() == [[3, 3]]
    finally:
        server.stop(grace_s=0.5)
    assert not list((tmp_path / "r").rglob("__pycache__")), "serving must leave nothing in the repository"


@pytest.mark.parametrize(
    ("versions", "output_type", "words"),
    [
        ({1: b"not an onnx model"}, "TYPE_FP32", "cannot read the model"),
        ({1: table_model(2.0)[:200]}, "TYPE_FP32", "cannot read the model"),
        ({1: table_model(2.0)}, "TYPE_INT64", "does not fit"),
    ],
    ids=["garbage", "cut short", "other signature"],
)
def test_model_that_does_not_load(
    install: TritonInstall, tmp_path: Path, versions: dict[int, bytes], output_type: str, words: str
) -> None:
    """A server over a broken model ends, and the error says which version and why."""
    write_repository(tmp_path / "r", versions=versions, output_type=output_type)
    server = TritonServer(install, tmp_path / "r", TritonPorts.free(), log_path=tmp_path / "log")
    server.start()
    try:
        with pytest.raises(LoadRefusedError, match=rf"table version 1: .*{words}"):
            server.wait_ready(30)
    finally:
        server.stop(grace_s=0.5)


def test_busy_port_is_named(install: TritonInstall, repository: Path, server: TritonServer) -> None:
    """A port that is taken is named before anything is started."""
    free = TritonPorts.free()
    other = TritonServer(install, repository, TritonPorts(server.ports.http, free.grpc, free.metrics))
    with pytest.raises(ServerUnavailableError, match=f"http port 127.0.0.1:{server.ports.http} is taken"):
        other.start()


def test_missing_environment_is_named(tmp_path: Path) -> None:
    """Without the image's environment the error says how to build it."""
    with pytest.raises(SlipwayError, match=r"python -m slipway_sandbox\.host\.images triton"):
        TritonInstall.prepare(tmp_path / "install", tmp_path / "no-venv")


def test_stops_soon_and_leaves_no_shared_memory(
    install: TritonInstall, repository: Path, tmp_path: Path
) -> None:
    """Stopping ends the server and its stubs, and nothing of theirs stays in shared memory."""
    server = TritonServer(install, repository, TritonPorts.free(), log_path=tmp_path / "log")
    server.start()
    server.wait_ready(30)
    assert server.process is not None
    group = server.process.pid
    server.stop()
    wait_until(lambda: not _group_lives(group), "the process group to be gone")
    assert not list(Path("/dev/shm").glob(f"slipway-{server.ports.http}-*"))


def test_ends_with_its_parent(install: TritonInstall, repository: Path, tmp_path: Path) -> None:
    """The command becomes the server, which ends by itself when its parent is killed outright."""
    ports = TritonPorts.free()
    server = TritonServer(install, repository, ports)
    command = [sys.executable, "-m", "slipway_sandbox.services.triton", "--repository", str(repository)]
    command += ["--venv", str(install.venv)]
    command += [f"--http-port={ports.http}", f"--grpc-port={ports.grpc}", f"--metrics-port={ports.metrics}"]
    program = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2); "
        "print(child.pid, flush=True); time.sleep(600)"
    )
    root = Path(__file__).parents[4]
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", program, *command], stdout=subprocess.PIPE, stderr=log, text=True, cwd=root
        )
    try:
        assert parent.stdout is not None
        group = int(parent.stdout.readline())
        wait_until(server.is_ready, "the server to be ready")
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: not _group_lives(group), "the orphaned server to end")
    finally:
        parent.kill()
        parent.wait()


def _group_lives(group: int) -> bool:
    """Tell whether a process of the group is left that is more than a zombie."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False
