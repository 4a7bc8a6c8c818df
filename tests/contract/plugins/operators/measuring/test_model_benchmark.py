"""The live version measured outside of a release: real tritonserver and perf_analyzer, pods of an emulated cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.measuring.measure import MeasureVersionOperator, UnloadMeasuredOperator
from slipway.operators.measuring.prepare import PrepareBenchmarkOperator
from slipway.operators.revalidation.finding_book import FindingBook
from slipway.operators.revalidation.live_look import Live, LiveLook
from slipway_core.errors import ClusterUnavailableError, SlipwayError
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.release.pod_steps import pod_cluster, task_context
from tests.support.tuning.published import MODEL, publish_table

pytestmark = pytest.mark.timeout(600)
RELEASE_FILE = f"""\
model: {MODEL}
source: {{format: onnx}}
revalidation: {{unchecked_runs: 2}}
benchmark: {{requests: 20, rounds: 1, max_rounds: 1, concurrency: 1, slo: {{p99_ms: LIMIT}}}}
"""


@pytest.fixture
def cluster(tmp_path: Path, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """A cluster with perf_analyzer's image."""
    with pod_cluster(tmp_path / "cluster", s3_endpoint, "perf-analyzer") as emulator:
        extra = {"kube_config_path": str(emulator.kubeconfig), "namespace": NAMESPACE}
        connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection)
        yield emulator


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> list[Live]:
    """How the model stands, by its last entry: version 1 has all users."""
    standing = [Live("checked", version=1)]
    monkeypatch.setattr(LiveLook, "live", lambda _: standing[-1])
    return standing


class BenchmarkRun:
    """Runs of the workflow's tasks, each with a limit of its own."""

    def __init__(self, store: ModelStoreHook, folder: Path) -> None:
        self.store, self.folder = store, folder

    def prepare(self, run_id: str, p99_ms: float = 5000, **params: Any) -> str:
        """Name the version; return the release run as a template renders it."""
        (self.folder / f"{MODEL}.yaml").write_text(RELEASE_FILE.replace("LIMIT", str(p99_ms)))
        operator = PrepareBenchmarkOperator(
            task_id="prepare", releases_dir=str(self.folder), bucket=self.store.bucket
        )
        context: Any = {**task_context("prepare", run_id), "params": {"model": MODEL, **params}}
        return json.dumps(operator.execute(context))

    def measure(self, run_id: str, p99_ms: float = 5000) -> str:
        """Measure the live version."""
        release = self.prepare(run_id, p99_ms)
        operator = MeasureVersionOperator(task_id="measure", release=release)
        return str(operator.execute(task_context("measure", run_id)))

    def finding(self) -> tuple[str, str] | None:
        """Return name and status of the only finding."""
        found = FindingBook(self.store, MODEL).all()
        return next(((name, one.status) for name, one in found.items()), None)


@pytest.fixture
def benchmark(store: ModelStoreHook, tmp_path: Path, live: list[Live]) -> BenchmarkRun:
    """A published version 1, which is live."""
    publish_table(store)
    folder = tmp_path / "releases"
    folder.mkdir()
    return BenchmarkRun(store, folder)


def test_a_live_version_that_is_too_slow_is_a_finding_until_it_is_fast_enough(
    store: ModelStoreHook, hook: TritonHook, cluster: Emulator, benchmark: BenchmarkRun
) -> None:
    """A missed limit fails the run, is on the page and opens the finding; the next run that meets it closes it."""
    with pytest.raises(AirflowFailException, match="p99"):
        benchmark.measure("slow", p99_ms=0.001)
    assert benchmark.finding() == ("1-benchmark", "open")
    page = store.read(f"models/{MODEL}/1/evidence/benchmark-slow/benchmark.html") or b""
    assert b"p99" in page
    address = benchmark.measure("fast")
    assert address == store.uri(f"models/{MODEL}/1/evidence/benchmark-fast/benchmark.html")
    assert benchmark.finding() == ("1-benchmark", "closed")

    release = benchmark.prepare("fast")
    UnloadMeasuredOperator(task_id="unload", release=release).execute(task_context("unload", "fast"))
    assert not [entry.name for entry in hook.index() if entry.is_ready]
    assert not [entry.key for entry in store.entries("staging/") if MODEL in entry.key]


def test_what_could_not_be_measured_is_no_pass(
    store: ModelStoreHook, hook: TritonHook, benchmark: BenchmarkRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many runs as the release file says it is a finding; nothing is opened for what is no longer live."""

    def refuse(*_: Any) -> None:
        raise ClusterUnavailableError("the cluster starts no pod")

    monkeypatch.setattr(MeasureVersionOperator, "_pod_result", refuse)
    for run_id, status in (("first", "suspected"), ("second", "open")):
        with pytest.raises(SlipwayError, match="starts no pod"):
            benchmark.measure(run_id)
        assert benchmark.finding() == ("unchecked-benchmark", status)


def test_a_version_that_is_not_live_any_more_opens_nothing(
    store: ModelStoreHook,
    hook: TritonHook,
    benchmark: BenchmarkRun,
    live: list[Live],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is live is asked again after the measurement."""

    def refuse(*_: Any) -> None:
        live.append(Live("checked", version=2))
        raise ClusterUnavailableError("the cluster starts no pod")

    monkeypatch.setattr(MeasureVersionOperator, "_pod_result", refuse)
    with pytest.raises(SlipwayError, match="starts no pod"):
        benchmark.measure("first")
    assert benchmark.finding() is None


def test_which_version_is_measured(benchmark: BenchmarkRun, live: list[Live]) -> None:
    """The live one unless another is named; none while a release is under way; never one that nobody can tell."""
    assert json.loads(benchmark.prepare("r"))["version"] == 1
    with pytest.raises(AirflowFailException, match="is not published"):
        benchmark.prepare("r", version=7)
    for standing in ("in_flight", "nothing_live"):
        live.append(Live(standing, "why"))
        with pytest.raises(AirflowSkipException, match="why"):
            benchmark.prepare("r")
    assert json.loads(benchmark.prepare("r", version=1))["version"] == 1
    live.append(Live("could_not_check", "two revisions have traffic"))
    with pytest.raises(ClusterUnavailableError, match="two revisions"):
        benchmark.prepare("r")
    live.append(Live("checked", "not ours", is_foreign=True))
    with pytest.raises(AirflowFailException, match="not ours"):
        benchmark.prepare("r")
