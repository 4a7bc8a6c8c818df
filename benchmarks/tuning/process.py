"""One tuning of the digits model, in a process of its own.

    python -m benchmarks.tuning.process ENDPOINT FOLDER

Publishes the version, starts a staging tritonserver over the bucket, and does what the tasks of `model_tuning` do; each
measurement is the pod's program with the pod's environment, without a cluster around it. Prints the report as its last
line, and writes it with its page and the proposed change into FOLDER.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.gates.gated import signature_of
from benchmarks.gates.subjects import digits
from benchmarks.publishing.process import BUCKET, airflow
from benchmarks.sandbox import PROJECT_ROOT
from slipway_core.bucket_layout import evidence_prefix, repository_paths, tuning_id
from slipway_core.errors import SlipwayError
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.triton_config.build import build_config
from slipway_core.triton_config.pbtxt import to_pbtxt
from slipway_core.tuning.settings import Setting
from slipway_core.tuning.trials import Point
from slipway_digit_models.training import golden_set
from slipway_sandbox.host.images import IMAGE_VARIABLES, build_image
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

if TYPE_CHECKING:
    from slipway.hooks.s3_store import ModelStoreHook
    from slipway.tuning.search import Wanted

MODEL, VERSION, RUN = "digits", 1, "bench"
# Nearer to saturation perf_analyzer, which shares the two cores, hangs.
SHARE_OF_SATURATION = 0.5
_SATURATING, _SATURATION_REQUESTS, _SATURATION_ROUNDS = 8, 2000, 5
_SECONDS_A_ROUND = 1
# What the demo's file says of batching: the tuning begins at Triton's defaults.
_BATCHING = re.compile(r"  dynamic_batching:\n    max_queue_delay_us: .*\n")
_POD_SCRIPTS = PROJECT_ROOT / "include" / "pod_scripts"
# Of a measurement: a base, and for each round of each model. perf_analyzer was seen to hang near saturation.
_LIMIT_S, _ROUND_LIMIT_S = 60, 5
_FILES = ("report.json", "tuning.html", "proposal.diff", "proposal.yaml")
# Little, so that the figure is taken in minutes.
_TUNING = """
tuning:
  objective: latency
  quantile: p95
  request_rate_rps: {rate}
  requests: {requests}
  trials: 8
  budget_s: 300
  rounds: 4
  confirm_rounds: 40
  search:
    max_queue_delays_us: [0, 200, 1000]
    preferred_batch_sizes: [[], [8]]
    instances: [1, 2]
"""


def main() -> None:
    """Tune; print the report."""
    endpoint, target = sys.argv[1], Path(sys.argv[2])
    with airflow(endpoint), TemporaryDirectory() as folder:
        from slipway.hooks.s3_store import ModelStoreHook

        store = ModelStoreHook(BUCKET)
        with _staging(endpoint, Path(folder), store) as address:
            report = _tuned(store, Path(folder), LocalMeasure(store, address))
        for name in _FILES:
            (target / name).write_bytes(store.read(f"{_prefix()}{name}") or b"")
    print(json.dumps(report))


class LocalMeasure:
    """Measures as the pods do, by the same program and command, as a process of this machine."""

    def __init__(self, store: ModelStoreHook, server: str) -> None:
        self._store = store
        self._server = server
        self._image = build_image("perf-analyzer")
        self.requests = _SATURATION_REQUESTS

    def __call__(self, wanted: Wanted) -> list[list[Point]]:
        """Return the points of each of the models."""
        from slipway.operators.tuning.pods import measuring_command, points_of
        from slipway.pods.benchmark_command import MeasuringPlace

        spec = parse_release_spec(_release_text(), MODEL)
        root = repository_paths(MODEL, VERSION).root
        place = MeasuringPlace(
            grpc_address=self._server,
            http_address="",
            golden_uri=f"s3://{BUCKET}/{root}golden.npz",
            golden=spec.golden,
            destination=f"s3://{BUCKET}/{_prefix()}{wanted.folder}".rstrip("/"),
        )
        timeout_s = _LIMIT_S + _ROUND_LIMIT_S * len(wanted.models) * wanted.rounds
        benchmark = spec.benchmark.model_copy(update={"requests": self.requests, "timeout_s": timeout_s})
        program, *arguments = measuring_command(benchmark, place, wanted, VERSION)
        subprocess.run(
            [str(_POD_SCRIPTS / program), *arguments],
            env={
                **os.environ,
                **IMAGE_VARIABLES,
                "PATH": os.pathsep.join([str(_POD_SCRIPTS), str(self._image / "bin"), os.defpath]),
                "PYTHONPATH": str(_POD_SCRIPTS),
            },
            stdout=sys.stderr,
            check=False,
            timeout=timeout_s + _LIMIT_S,
        )
        result = self._store.read_json(f"{_prefix()}{wanted.folder}result.json") or {}
        if result.get("error") is not None:
            raise SlipwayError.from_dict(result["error"])
        return points_of(result, wanted)


def _tuned(store: ModelStoreHook, folder: Path, measure: LocalMeasure) -> dict[str, Any]:
    """Return the report of a tuning at a share of what Triton's defaults answer at most."""
    from slipway.operators.tuning.prepare import PrepareTuningOperator
    from slipway.operators.tuning.propose import ProposeChangeOperator
    from slipway.tuning.confirmation import confirm
    from slipway.tuning.search import SettingSearch, Wanted
    from slipway_core.tuning.choice import choose_best
    from slipway_core.tuning.objective import Objective

    _publish(store)
    releases = folder / "include" / "releases"
    releases.mkdir(parents=True)
    release = _prepared(PrepareTuningOperator, releases, rate=1.0, run="saturation")
    step = ProposeChangeOperator(task_id="propose", releases_dir=str(releases), release=release)
    staged = step.staged()
    name = staged.load("trial", Setting(instances=1))
    wanted = Wanted("saturation/", (name,), LoadLevel(concurrency=_SATURATING), _SATURATION_ROUNDS, 1, 0)
    (points,) = measure(wanted)
    staged.unload()

    saturation_rps = statistics.median(one.throughput_rps for one in points)
    rate = round(SHARE_OF_SATURATION * saturation_rps)
    release = _prepared(PrepareTuningOperator, releases, rate=rate, run=RUN)
    measure.requests = rate * _SECONDS_A_ROUND
    step = ProposeChangeOperator(task_id="propose", releases_dir=str(releases), release=release)
    plan, evidence, staged = step.plan, step.evidence, step.staged()
    trials = SettingSearch(plan, evidence, staged, measure).run()
    best = choose_best(trials, Objective(plan.tuning, plan.slo), plan.present)
    if best is not None:
        confirm(plan, evidence, staged, measure, best.setting)
    step.execute({"ti": None})  # type: ignore[typeddict-item]
    report = store.read_json(f"{_prefix()}report.json") or {}
    return {**report, "request_rate_rps": rate, "saturation_rps": saturation_rps}


def _prepared(operator: Any, releases: Path, *, rate: float, run: str) -> str:
    """Return what the task `prepare` hands on, for the demo's release file with a tuning at a rate."""
    asked = _TUNING.format(rate=rate, requests=round(rate * _SECONDS_A_ROUND))
    (releases / f"{MODEL}.yaml").write_text(_release_text() + asked)
    task = operator(task_id="prepare", releases_dir=str(releases), bucket=BUCKET)
    return json.dumps(task.execute({"params": {"model": MODEL, "version": VERSION}, "run_id": run}))


def _release_text() -> str:
    """Return the demo's release file without dynamic batching."""
    text = (PROJECT_ROOT / "include" / "releases" / f"{MODEL}.yaml").read_text()
    return _BATCHING.sub("  dynamic_batching: null\n", text)


def _prefix() -> str:
    return evidence_prefix(MODEL, VERSION, tuning_id(RUN))


def _publish(store: ModelStoreHook) -> None:
    """Publish the demo's second model as version 1."""
    from slipway.registry.registry import ModelRegistry, StoredSource

    subject = digits()
    spec = parse_release_spec(_release_text(), MODEL)
    signature = signature_of(subject.model)
    config = build_config(spec, signature, VERSION, files=["model.onnx"])
    contents = {
        f"{MODEL}/config.pbtxt": to_pbtxt(config).encode(),
        f"{MODEL}/{VERSION}/model.onnx": subject.model.SerializeToString(),
    }
    golden, key = golden_set(2), f"incoming/{MODEL}/{VERSION}/golden.npz"
    store.write(key, golden)
    manifest = Manifest(
        model=MODEL,
        version=VERSION,
        created_at=datetime.now(UTC),
        files={path: FileEntry.of(content) for path, content in contents.items()},
        config_sha256="0" * 64,
        signature=signature,
        source=Provenance(files={"golden.npz": FileEntry.of(golden)}),
    )
    sources: dict[str, bytes | StoredSource] = dict(contents)
    ModelRegistry(store).publish(manifest, sources, key)


@contextmanager
def _staging(endpoint: str, folder: Path, store: ModelStoreHook) -> Iterator[str]:
    """Give the gRPC address of a staging server over the bucket, and an Airflow connection to it."""
    os.environ["AWS_ENDPOINT_URL"] = endpoint
    store.write("staging/README", b"A folder of the object store is there when something is in it.")
    ports = TritonPorts.free()
    server = TritonServer(
        TritonInstall.prepare(venv=build_image("triton")),
        f"s3://{endpoint}/{BUCKET}/staging",
        ports,
        mode="explicit",
        log_path=folder / "triton.log",
        exit_timeout_s=1,
    )
    server.start()
    try:
        server.wait_ready(60)
        extra = {"grpc_port": ports.grpc}
        connection = {"conn_type": "generic", "host": LOOPBACK, "port": ports.http, "extra": extra}
        os.environ["AIRFLOW_CONN_TRITON_STAGING"] = json.dumps(connection)
        yield f"{LOOPBACK}:{ports.grpc}"
    finally:
        server.stop()


if __name__ == "__main__":
    main()
