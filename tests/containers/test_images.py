"""Every image that has a base here, built and run with a pod's rights: its help, and one real job."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from slipway_core.errors import SmokeTestRefusedError
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.parity import parse_parity
from slipway_core.gates.smoke_test.judge import judge_smoke_test, require_smoke_test
from slipway_core.gates.smoke_test.report import SmokeTestReport
from slipway_core.spec.smoke_test import SmokeTest
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.cluster.emulator import Emulator
from tests.support.containers.bases import has_base
from tests.support.containers.engine import RUN_LIMIT_S, SCRATCH, Engine
from tests.support.containers.image_pod import ImagePod
from tests.support.guard.stage import Stage
from tests.support.pods.onnx_models import classifier
from tests.support.pods.scoring import EXAMPLE, Scorer
from tests.support.pods.smoke_models import WARMUP, put_model
from tests.support.pods.support import ObjectStore, check_software_list
from tests.support.pods.tokenizer import MAKE_TOKENIZER, TOKENIZER_CONFIG
from tests.support.pods.verified_download import BUCKET as SERVED
from tests.support.pods.verified_download import put_version
from tests.support.serving.clients import body_of
from tests.support.serving.ensembles import ensemble_files, python_files
from tests.support.serving.tables import DOUBLE, OTHER, running_tables

# A build may download gigabytes.
pytestmark = pytest.mark.timeout(1800)

USER_ID = 10001
LARGE = {"genai-perf", "pytorch"}
ROWS = np.ones((4, 2), np.float32)
WHO_AND_WHERE = """
import os
print(os.getuid(), os.getgid())
for folder in ("/", "/opt/slipway", "/home/slipway", "/tmp"):
    try:
        open(os.path.join(folder, "probe"), "w")
        print("can write to", folder)
    except OSError:
        pass
print(open("/proc/self/status").read())
"""

Pods = Callable[[str], ImagePod]
Note = Callable[[str, str], None]
Build = Callable[[str], str]


def images() -> list[str]:
    """The images that stand on a plain Python, or on a server's image."""
    found = sorted((PROJECT_ROOT / "include" / "images").glob("*/Dockerfile"))
    return [path.parent.name for path in found if has_base(path)]


NAMED = [pytest.param(name, id=name, marks=[pytest.mark.large] if name in LARGE else []) for name in images()]


@pytest.mark.parametrize("name", NAMED)
def test_an_image_runs_with_a_pods_rights_and_without_a_network(
    engine: Engine, build: Build, ran: Note, name: str
) -> None:
    """Its own command prints the help, though it may write nowhere, has no capability and reaches nobody."""
    image = build(name)
    began = time.monotonic()
    done = engine.run(image)
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout
    probed = engine.run(image, "-c", WHO_AND_WHERE, options=["--entrypoint", "python3"])
    assert probed.returncode == 0, probed.stderr
    assert probed.stdout.startswith(f"{USER_ID} {USER_ID}\n")
    assert "can write to" not in probed.stdout
    status = dict(line.split(":\t", 1) for line in probed.stdout.splitlines() if ":\t" in line)
    assert (int(status["CapEff"], 16), status["NoNewPrivs"]) == (0, "1")
    ran(name, f"--help ({seconds:.1f} s, no network)")


@pytest.mark.parametrize("name", NAMED)
def test_nothing_is_compiled_at_a_start(engine: Engine, build: Build, name: str) -> None:
    """Every module that a program's help imports has its bytecode in the image."""
    image = build(name)
    configuration = engine.inspect(image)["Config"]
    words = [*(configuration.get("Entrypoint") or ()), *configuration["Cmd"]]
    programs = [[f"/opt/slipway/bin/{word}"] for word in words if word.endswith(".py")]
    program = ["-OO", "-m", "slipway_guard"] if name == "guard" else programs[0]
    done = engine.run(image, "-v", *program, "--help", options=["--entrypoint", "python3"])
    assert done.returncode == 0, done.stderr[-2000:]
    assert "matches /" in done.stderr
    # From a .pyc otherwise.
    compiled = re.findall(r"^# code object from '(/.*\.py)'$", done.stderr, re.MULTILINE)
    assert compiled == []


@pytest.mark.parametrize("name", NAMED)
def test_labels_and_settings_are_in_the_image(engine: Engine, build: Build, name: str) -> None:
    """A registry can show what the image is and which commit it was built from."""
    configuration = engine.inspect(build(name))["Config"]
    labels = configuration["Labels"]
    assert labels["org.opencontainers.image.title"] == f"slipway/{name}"
    assert labels["org.opencontainers.image.revision"] == "lane"
    assert configuration["User"] == f"{USER_ID}:{USER_ID}"


def test_the_onnx_image_converts_a_model(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """A classifier from S3 becomes a simplified one beside it, and answers alike."""
    onnx, prefix = pod("onnx"), "onnx/out"
    source = store.put("onnx/model.onnx", classifier())
    rows = np.random.default_rng(3).random((32, 4)).astype(np.float32)
    golden = store.put_arrays("onnx/golden.npz", X=rows)
    done = onnx.run("convert_onnx.py", "--source", source, "--golden", golden, prefix=prefix)
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    assert all(entry.passed for entry in parse_parity(done.result["parity"]))
    session = onnxruntime.InferenceSession(store.read(f"{prefix}/model.onnx"))
    assert session.run(["label"], {"X": rows})[0].shape == (32,)
    ran("onnx", f"convert_onnx.py ({done.result['seconds']:.1f} s)")


def test_a_converter_without_a_volume_says_what_to_mount(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """Where /tmp cannot be written to, the result and the last line name it with the remedy, and nothing dies."""
    prefix = "onnx/no-scratch"
    given = ("--source", store.url("onnx/none.onnx"), "--golden", store.url("onnx/none.npz"))
    done = pod("onnx").run("convert_onnx.py", *given, prefix=prefix, scratch=False)
    assert done.exit_code == 3
    assert done.error["kind"] == "UserError"
    assert done.error["what"].startswith("/tmp cannot be written to")
    assert "Remedy: mount a volume at /tmp" in done.stderr
    assert "Traceback" not in done.stderr
    ran("onnx", "refusal without /tmp")


def test_the_python_image_passes_a_model_through(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """A model of the Python backend is checked and laid out as it will be served."""
    for path, content in python_files().items():
        store.put(f"python/incoming/{path}", content)
    golden = store.put_arrays("python/incoming/golden.npz", x=ROWS, label=ROWS[:, 0])
    where = (
        "--source",
        store.url("python/incoming"),
        "--golden",
        golden,
        "--model",
        "scale",
        "--version",
        "7",
    )
    done = pod("python").run("convert_python.py", *where, prefix="python/out")
    assert done.exit_code == 0, done.stderr
    check_software_list(done, store, "python/out", "tritonclient")
    ran("python", "convert_python.py")


def test_the_ensemble_image_passes_an_ensemble_through(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """An ensemble and its members are checked as one unit."""
    for path, content in ensemble_files().items():
        store.put(f"ensemble/incoming/repository/{path}", content)
    golden = store.put_arrays("ensemble/incoming/golden.npz", x=ROWS)
    source = store.url("ensemble/incoming/repository")
    where = ("--source", source, "--golden", golden, "--model", "prices", "--version", "7")
    done = pod("ensemble").run("convert_ensemble.py", *where, prefix="ensemble/out")
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    assert set(done.result["repository"]["configs"]) == {"prices", "scale", "lookup"}
    ran("ensemble", "convert_ensemble.py")


def test_the_sklearn_image_converts_what_it_has_trained(
    pod: Pods, store: ObjectStore, ran: Note, tmp_path: Path
) -> None:
    """Models of scikit-learn, XGBoost and LightGBM, trained in the image, become ONNX."""
    sklearn, home = pod("sklearn"), tmp_path / "models"
    home.mkdir(mode=0o777)
    home.chmod(0o777)  # the image's user writes there
    program = PROJECT_ROOT / "tests" / "support" / "pods" / "training" / "estimators.py"
    mounts = [f"--volume={program}:/train.py:ro", f"--volume={home}:/models"]
    options = [*mounts, *SCRATCH, "--entrypoint", "python"]
    trained = sklearn.engine.run(sklearn.image, "-W", "ignore", "/train.py", "/models", options=options)
    assert trained.returncode == 0, trained.stderr
    sources = store.put_folder("sklearn", home)
    for library, model in (
        ("sklearn", "linear.skops"),
        ("xgboost", "xgboost-iris.ubj"),
        ("lightgbm", "lightgbm-iris.txt"),
    ):
        given = ["--library", library, "--source", f"{sources}/{model}", "--golden", f"{sources}/iris.npz"]
        done = sklearn.run("convert_estimator.py", *given, prefix=f"sklearn/out/{library}")
        assert done.exit_code == 0, done.stderr
        ran("sklearn", f"convert_estimator.py {library}")


def test_the_perf_analyzer_image_measures_a_triton(
    pod: Pods, triton: TritonServer, store: ObjectStore, ran: Note
) -> None:
    """perf_analyzer puts load on a real tritonserver, and every request is answered."""
    rows = np.random.default_rng(0).random((40, 4)).astype(np.float32)
    golden = store.put_arrays("perf/golden.npz", X=rows, label=np.zeros(40, np.int64))
    given = ["--server", f"127.0.0.1:{triton.ports.grpc}", "--golden", golden, "--candidate", "tabular"]
    given += ["--candidate-version", "1", "--requests", "60", "--rounds", "1"]
    done = pod("perf-analyzer").run("benchmark_perf_analyzer.py", *given, prefix="perf/out")
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    (measured,) = BenchmarkResult.from_json(done.result).measurements
    assert (measured.requests, measured.errors) == (60, 0)
    ran("perf-analyzer", f"60 requests to a tritonserver, p99 {measured.p99_ms:.1f} ms")


def test_the_smoke_test_image_loads_a_version_on_its_own_triton(
    pod: Pods, store: ObjectStore, ran: Note
) -> None:
    """The base's server starts as user 10001 on a read-only root, and all phases of the smoke test pass."""
    image, prefix = pod("smoke-test"), "smoke-test/out"
    source, golden, digest = put_model(store, "sound", instances=2, more=WARMUP)
    given = ("--source", source, "--golden", golden, "--manifest-sha256", digest)
    done = image.run("smoke_test.py", *given, "--loads", "2", "--requests", "200", prefix=prefix)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert done.result is not None
    assert [one["status"] for one in done.result["loads"]] == ["loaded", "loaded"]
    assert len(done.result["instances"]["seen"]["sound"]) == 2
    assert (done.result["memory"]["requests"], done.result["memory"]["failed"]) == (200, 0)
    probes = done.result["robustness"]["probes"]
    assert not [one for one in probes if one["died"] or one["golden"] or one["outcome"] == "silent"]
    ran("smoke-test", f"a version loaded twice on its own tritonserver, {len(probes)} boundary inputs")


def test_the_smoke_test_image_survives_what_ends_its_triton(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """A warm-up that ends the server is told with its signal, by a result that is there."""
    source, golden, digest = put_model(store, "cold", more=WARMUP)
    given = ("--source", source, "--golden", golden, "--manifest-sha256", digest)
    done = pod("smoke-test").run("smoke_test.py", *given, prefix="smoke-test/cold")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert done.result is not None
    (load,) = done.result["loads"]
    assert (load["status"], "SIGSEGV" in load["reason"]) == ("crashed", True)
    ran("smoke-test", "a warm-up that crashes, told")


def test_a_server_without_shared_memory_says_so(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """Where /dev/shm is too small for the instances, the load's reason has the words that the gate knows it by."""
    source, golden, digest = put_model(store, "sound", instances=8)
    given = ("--source", source, "--golden", golden, "--manifest-sha256", digest)
    smoke_test, prefix = pod("smoke-test"), "smoke-test/shm"
    done = smoke_test.run("smoke_test.py", *given, prefix=prefix, options=["--shm-size=2m"])
    assert done.exit_code == 0, done.stdout + done.stderr
    assert done.result is not None
    (load,) = done.result["loads"]
    verdict = judge_smoke_test(SmokeTestReport.from_json(done.result), SmokeTest())
    with pytest.raises(SmokeTestRefusedError, match=r"raise `smoke_test\.shm_size`"):
        require_smoke_test(verdict, SmokeTest(), "sound", 1)
    assert load["status"] == "refused"
    ran("smoke-test", "too little shared memory, told")


def test_the_score_image_runs_a_scorer(pod: Pods, store: ObjectStore, ran: Note) -> None:
    """The example's scorer gives its figures."""
    scorer = Scorer(pod("score"), store, "score")
    done = scorer.run(EXAMPLE)
    assert done.exit_code == 0, done.stderr
    assert scorer.returned(done).figures["eer_percent"].value == 0.0
    ran("score", "score_answers.py with the example's scorer")


@pytest.mark.large
def test_the_genai_perf_image_measures_a_model_that_writes_text(
    pod: Pods, triton: TritonServer, store: ObjectStore, ran: Note, tmp_path: Path
) -> None:
    """genai-perf streams from a real tritonserver, with a tokenizer that the image's own Python has made."""
    genai, home = pod("genai-perf"), tmp_path / "tokenizer"
    home.mkdir(mode=0o777)
    home.chmod(0o777)  # the image's user writes there
    options = [f"--volume={home}:/made", *SCRATCH, "--entrypoint", "python"]
    made = genai.engine.run(genai.image, "-c", MAKE_TOKENIZER, "/made/tokenizer.json", options=options)
    assert made.returncode == 0, made.stderr
    (home / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG))
    given = [
        "--server",
        f"127.0.0.1:{triton.ports.grpc}",
        "--tokenizer",
        store.put_folder("genai/tokenizer", home),
    ]
    given += ["--candidate", "story", "--candidate-version", "1", "--backend", "tensorrtllm", "--streaming"]
    given += ["--requests", "10", "--rounds", "1", "--input-tokens-mean", "5", "--output-tokens-mean", "8"]
    done = genai.run("benchmark_genai_perf.py", *given, prefix="genai/out")
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    (measured,) = BenchmarkResult.from_json(done.result).measurements
    assert (measured.requests, measured.errors) == (10, 0)
    assert measured.ttft_ms is not None
    ran("genai-perf", f"10 texts of a tritonserver, first token after {measured.ttft_ms.p50_ms:.1f} ms")


def test_the_mirror_comparison_image_compares_two_tritons(
    pod: Pods, store: ObjectStore, ran: Note, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Copies of requests are asked of two real tritonservers, and the inputs that differ are found."""
    comparer, ports = pod("mirror-comparison"), TritonPorts.free()
    with running_tables({"stable": DOUBLE, "other": OTHER}, tmp_path_factory.mktemp) as servers:
        stable, candidate = (f"http://127.0.0.1:{servers[name].ports.http}" for name in ("stable", "other"))
        words = comparer.engine.run_words(
            comparer.image,
            *("mirror_comparison.py", "--model", "table", "--requests", "10", "--timeout-s", "60"),
            *("--stable-url", stable, "--stable-host", "stable", "--candidate-url", candidate),
            *("--candidate-host", "candidate", "--port", str(ports.http), "--grpc-port", str(ports.grpc)),
            *("--class-output", "y", "--destination", store.url("mirror/out")),
            options=[*comparer.variables(), *SCRATCH],
            network="host",
        )
        program = subprocess.Popen(
            words,
            env=comparer.engine.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert program.stdout is not None
            assert program.stdout.readline().startswith("listen:")
            for first in range(10):
                url = f"http://127.0.0.1:{ports.http}/v2/models/table/infer"
                copy = urllib.request.Request(url, body_of(float(first)), method="POST")
                urllib.request.urlopen(copy, timeout=20).close()
            _, told = program.communicate(timeout=RUN_LIMIT_S)
        finally:
            program.kill()
    assert program.returncode == 0, told
    counts = store.client.get_object(Bucket="slipway", Key="mirror/out/result.json")["Body"].read()
    assert b'"compared": 10' in counts
    assert b'"differ": 2' in counts
    ran("mirror-comparison", "10 copies to two tritonservers, 2 differ")


def test_the_verify_image_lays_a_version_out(
    engine: Engine, build: Build, store: ObjectStore, ran: Note, tmp_path: Path
) -> None:
    """KServe's storage initializer downloads a published version, and refuses one byte that was changed."""
    image, folder = build("verify"), tmp_path / "models"
    folder.mkdir()
    folder.chmod(0o777)
    store.client.create_bucket(Bucket=SERVED)
    source = put_version(store.client, {"digits/1/model.onnx": b"weights"})
    verify = ImagePod(engine, image, store)
    options = [*verify.variables(), f"--volume={folder}:/mnt/models"]
    done = engine.run(image, source, "/mnt/models", options=options, network="host")
    assert done.returncode == 0, done.stderr
    assert (folder / "digits" / "1" / "model.onnx").read_bytes() == b"weights"
    ran("verify", "a published version")
    store.client.put_object(
        Bucket=SERVED, Key="models/digits/1/repository/digits/1/model.onnx", Body=b"Weights"
    )
    done = engine.run(image, source, "/mnt/models", options=options, network="host")
    assert done.returncode == 3
    assert "is not what was published" in done.stderr
    ran("verify", "a changed byte refused")


def test_the_guard_image_ends_a_canary_that_nobody_drives(
    engine: Engine, build: Build, ran: Note, tmp_path: Path
) -> None:
    """In an emulated cluster a canary whose lease runs out goes to weight 0."""
    image, emulator = build("guard"), Emulator(tmp_path / "cluster")
    emulator.start()
    stage = Stage(emulator, "models")
    try:
        stage.start_canary(20, lease_s=2)
        assert stage.candidate_share() == 20
        kubeconfig = tmp_path / "kubeconfig"
        shutil.copyfile(emulator.kubeconfig, kubeconfig)
        kubeconfig.chmod(0o644)  # the image's user reads it
        words = ("--once", "--kubeconfig", "/kubeconfig", "--namespace", stage.namespace, "--poll-s", "0.2")
        options = [f"--volume={kubeconfig}:/kubeconfig:ro"]
        done = engine.run(image, *words, options=options, network="host")
        assert done.returncode == 0, done.stdout + done.stderr
        assert stage.candidate_share() == 0
    finally:
        stage.close()
        emulator.stop()
    ran("guard", "--once ended a canary (emulated cluster)")
