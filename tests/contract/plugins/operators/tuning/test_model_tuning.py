"""A tuning from its form to its page: real pods in the emulated cluster, real perf_analyzer, a real tritonserver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.tuning.clean import RemoveTrialsOperator
from slipway.operators.tuning.prepare import PrepareTuningOperator
from slipway.operators.tuning.propose import ProposeChangeOperator
from slipway.operators.tuning.search import ConfirmSettingOperator, SearchSettingsOperator
from slipway.tuning.staged import place_trials
from slipway_core.tuning.settings import Setting
from slipway_core.tuning.trials import Trial
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.release.pod_steps import pod_cluster, task_context
from tests.support.tuning.published import CONFIG, MODEL, publish_table

pytestmark = pytest.mark.timeout(600)
RUN = "manual-1"
PREFIX = f"models/{MODEL}/1/evidence/tuning-{RUN}/"
# Three settings in all: Triton's defaults, the present one, whose requests wait for others, and one without a wait.
# Their medians lie so far apart that no busy machine turns them round.
RELEASE_FILE = f"""\
model: {MODEL}
source: {{format: onnx}}
serving:
  dynamic_batching:
    max_queue_delay_us: 300000 # as somebody once guessed
benchmark: {{slo: {{p99_ms: 5000}}}}
tuning:
  objective: latency
  quantile: p50
  request_rate_rps: 30
  requests: 30
  rounds: 1
  confirm_rounds: 3
  search: {{max_queue_delays_us: [0], preferred_batch_sizes: [[]], instances: [1]}}
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
def releases(tmp_path: Path) -> Path:
    """The folder with the release file."""
    folder = tmp_path / "include" / "releases"
    folder.mkdir(parents=True)
    (folder / f"{MODEL}.yaml").write_text(RELEASE_FILE)
    return folder


def prepare(store: ModelStoreHook, releases: Path, **params: Any) -> str:
    """What the task `prepare` returns, as a template renders it."""
    operator = PrepareTuningOperator(task_id="prepare", releases_dir=str(releases), bucket=store.bucket)
    form = {"model": MODEL, "version": 1, **params}
    context: Any = {"params": form, "run_id": RUN}
    return json.dumps(operator.execute(context))


# At night Airflow's scheduler does the same: tests/e2e/test_tuning.py.
def test_a_tuning_ends_with_a_page_and_a_change_to_review(
    store: ModelStoreHook, hook: TritonHook, cluster: Emulator, releases: Path
) -> None:
    """Each setting was measured on the server, the defaults twice; the better one is confirmed in turns and proposed.

    What an earlier tuning has left loaded is gone before the first trial, and nothing is left at the end. A scheduler
    keeps the name of one pod for each task: no measurement takes that pod for its own.
    """
    manifest = publish_table(store)
    place_trials(store, manifest, CONFIG)
    hook.load(f"{MODEL}_tuning")
    release = prepare(store, releases)
    assert not hook.ready_versions(f"{MODEL}_tuning")
    shared: dict[str, Any] = {"release": release}
    SearchSettingsOperator(task_id="search", **shared).execute(
        {**task_context("search", RUN), "task_state_store": OnePod()}
    )
    trials = trials_of(store)
    assert [(one.kind, one.state) for one in trials] == [
        ("defaults", "complete"),
        ("present", "complete"),
        ("search", "complete"),
        ("defaults_again", "complete"),
    ]
    assert trials[1].points[0].p50_ms > 5 * trials[0].points[0].p50_ms
    assert all(one.points[0].load.request_rate_rps == 30 for one in trials)

    ConfirmSettingOperator(task_id="confirm", **shared).execute(task_context("confirm", RUN))
    told = ProposeChangeOperator(task_id="propose", releases_dir=str(releases), **shared).execute(
        task_context("propose", RUN)
    )
    assert told["status"] == "improved", told
    report = store.read_json(f"{PREFIX}report.json")
    assert report["against_present"]["high"] < 0.95
    assert len(report["comparisons"][-1]["candidate_figures"]) == 3
    diff = (store.read(f"{PREFIX}proposal.diff") or b"").decode()
    assert "-    max_queue_delay_us: 300000 # as somebody once guessed" in diff
    assert (releases / f"{MODEL}.yaml").read_text() == RELEASE_FILE
    page = (store.read(f"{PREFIX}tuning.html") or b"").decode()
    assert "<svg" in page
    assert "a change is proposed" in page

    RemoveTrialsOperator(task_id="remove", **shared).execute(task_context("remove", RUN))
    assert not [entry.key for entry in store.entries("staging/") if MODEL in entry.key]
    assert not [entry.name for entry in hook.index() if entry.is_ready]


def test_a_request_that_cannot_be_met_is_refused_before_anything_is_loaded(
    store: ModelStoreHook, hook: TritonHook, releases: Path
) -> None:
    """A version that was not published, a parameter that there is not, a generator that measures no tensors."""
    with pytest.raises(AirflowFailException, match="is not published"):
        prepare(store, releases)
    with pytest.raises(AirflowFailException, match="no parameter `trails`"):
        prepare(store, releases, trails=3)
    text = RELEASE_FILE.replace("benchmark: {", "benchmark: {generator: genai_perf, genai: {}, ")
    (releases / f"{MODEL}.yaml").write_text(text)
    with pytest.raises(AirflowFailException, match="cannot be tuned here"):
        prepare(store, releases)
    assert hook.index() == ()


def test_a_cancelled_search_leaves_no_trial_loaded(
    store: ModelStoreHook, hook: TritonHook, releases: Path
) -> None:
    """Whoever ends the task in the middle of a trial finds its model unloaded, though no pod was ever there."""
    publish_table(store)
    operator = SearchSettingsOperator(task_id="search", release=prepare(store, releases))
    operator.staged().load("trial", Setting(instances=1))
    assert hook.ready_versions(f"{MODEL}_tuning") == {1}
    operator.on_kill()
    assert not hook.ready_versions(f"{MODEL}_tuning")


class OnePod:
    """What Airflow keeps between the tries of a task: here the name of a pod that nobody may ask for."""

    def get(self, key: str) -> Any:
        """Refuse."""
        raise AssertionError(f"{key} was asked for")

    def set(self, key: str, value: Any) -> None:
        """Take a pod's name."""


def trials_of(store: ModelStoreHook) -> list[Trial]:
    """The trials as the bucket has them."""
    keys = [entry.key for entry in store.entries(f"{PREFIX}trials/") if entry.key.count("/") == 6]
    return [Trial.from_bytes(store.read(key) or b"", key) for key in keys]
