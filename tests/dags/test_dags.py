"""The workflows as Airflow's DAG processor sees them: import, structure, form; nothing runs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.dag import DAG
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from jinja2.sandbox import SandboxedEnvironment

from slipway.pools import STAGING_POOL
from slipway_core.spec.conversion.conversion import LONGEST_CONVERSION_S
from slipway_core.spec.pods.settings import LONGEST_STARTUP_S
from slipway_core.spec.release_file import Serving
from slipway_core.spec.run_overrides import ROLLBACK_PARAMETERS
from tests.support.dags.workflows import (
    BENCHMARK,
    DAGS,
    FILES,
    FINDING,
    FLEET,
    FREEZE,
    GC,
    INTAKE,
    PAUSE,
    PIN,
    REJECTION,
    RELEASE,
    REVALIDATION,
    ROLLBACK,
    ROOT,
    SCHEDULED,
    SETTINGS_FILE,
    SYNC,
    TUNING,
    ancestors,
    fill_in,
)

# What takes long to import; boto3 is not among them, since Airflow's own trigger for SQS imports it.
ONLY_TASKS_NEED = {
    "aiohttp",
    "google.protobuf",
    "great_expectations",
    "grpc",
    "kubernetes",
    "kubernetes_asyncio",
    "matplotlib",
    "model_signing",
    "optuna",
    "pandas",
    "prometheus_client",
    "ruamel",
    "scipy",
    "slipway.metrics.sources.scrape",
    "slipway.notifiers.channels.apprise",
    "slipway.pods.execution",
    "slipway_core.gates.validation.kinds.classification",
    "slipway_core.metrics.sources.scrape",
    "slipway_core.spec.conversion.targets.onnx",
    "tritonclient.grpc",
    "tritonclient.http",
}


def test_every_file_is_a_dag_of_its_name(bag: DagBag) -> None:
    """Every file in dags/ imports without error, warning or network, and holds the DAG that it is named after."""
    assert bag.import_errors == {}
    assert sorted(bag.dags) == sorted(Path(name).stem for name in FILES)
    assert {RELEASE, INTAKE} <= set(bag.dags)
    assert not any(stats.warning_num for stats in bag.dagbag_stats)


@pytest.mark.parametrize(
    "dag_id",
    [
        RELEASE,
        INTAKE,
        ROLLBACK,
        PAUSE,
        REJECTION,
        FREEZE,
        GC,
        PIN,
        REVALIDATION,
        FINDING,
        SYNC,
        TUNING,
        BENCHMARK,
        SCHEDULED,
        FLEET,
    ],
)
def test_dag_explains_itself(bag: DagBag, dag_id: str) -> None:
    """A DAG has a title, a description, documentation, tags, an owner, and no catch-up."""
    dag = bag.dags[dag_id]
    assert dag.dag_display_name != dag_id
    assert dag.description
    assert len((dag.doc_md or "").split()) > 30
    assert "slipway" in dag.tags
    assert dag.catchup is False
    assert dag.owner == "slipway"


def test_every_task_is_documented_and_bounded(bag: DagBag) -> None:
    """Every task says what it does, is tried again, and cannot run or wait for ever."""
    for dag in bag.dags.values():
        for task in dag.tasks:
            name = f"{dag.dag_id}.{task.task_id}"
            arguments = getattr(task, "partial_kwargs", {})

            def given(attribute: str, task: Any = task, arguments: dict[str, Any] = arguments) -> Any:
                return arguments.get(attribute, getattr(task, attribute, None))

            assert given("doc_md"), name
            assert given("retries"), name
            assert given("retry_delay"), name
            assert given("execution_timeout") or given("response_timeout"), name


def test_dags_can_be_stored(bag: DagBag) -> None:
    """Every DAG can be written to Airflow's database, as the DAG processor does."""
    for dag in bag.dags.values():
        json.dumps(DagSerialization.to_dict(dag))


def test_stages_are_in_order(release: DAG) -> None:
    """Each stage comes after the one before: nothing reaches users that has not passed every gate."""
    order = [
        "admit",
        "prepare.list_variants",
        "prepare.convert",
        "prepare.choose_variant",
        "prepare.publish",
        "staging.smoke_test",
        "staging.prepare",
        "staging.load_candidate",
        "staging.validate",
        "staging.benchmark",
        "rollout.arm_rollback",
        "rollout.show_candidate",
        "rollout.run_mirror_comparison",
        "rollout.approve",
        "rollout.shift_traffic",
        "rollout.approve_promotion",
        "rollout.promote",
        "rollout.restore_stable",
        "conclude",
        "announce",
    ]
    beside = {"staging.load_baseline", "staging.unload", "rollout.hold"}
    assert set(order) | beside == set(release.task_ids)
    for earlier, later in itertools.pairwise(order):
        assert earlier in ancestors(release, later), f"{earlier} before {later}"
    assert "staging.load_baseline" in ancestors(release, "staging.validate")
    assert "staging.benchmark" in ancestors(release, "staging.unload")
    assert "rollout.shift_traffic" in ancestors(release, "rollout.hold")
    assert "rollout.hold" in ancestors(release, "rollout.promote")


@pytest.mark.parametrize(
    ("teardown", "setup"),
    [
        ("staging.unload", "staging.prepare"),
        ("rollout.restore_stable", "rollout.arm_rollback"),
        ("conclude", "admit"),
        ("announce", "admit"),
    ],
)
def test_teardowns_run_whatever_happened(release: DAG, teardown: str, setup: str) -> None:
    """Staging is cleared, the stable version restored and the release concluded once their setups have passed."""
    task = release.get_task(teardown)
    assert task.is_teardown
    assert release.get_task(setup).is_setup
    assert setup in task.upstream_task_ids
    assert task.trigger_rule.value == "all_done_setup_success"


def test_nothing_else_is_a_setup_or_teardown(release: DAG) -> None:
    """No gate is a teardown: then its failure would not count."""
    special = {task.task_id for task in release.tasks if task.is_setup or task.is_teardown}
    assert special == {
        "admit",
        "announce",
        "conclude",
        "rollout.arm_rollback",
        "rollout.restore_stable",
        "staging.prepare",
        "staging.unload",
    }


def test_a_refused_gate_stops_the_release(release: DAG) -> None:
    """No task before the teardowns runs although a task before it failed."""
    for task in release.tasks:
        if not task.is_teardown:
            rules = ("all_success", "none_failed", "none_failed_min_one_success")
            assert task.trigger_rule.value in rules, task.task_id


def test_a_load_may_take_as_long_as_the_release_file_says(release: DAG) -> None:
    """Both loads get the release file's limit, and Airflow's own is above the largest that it may be."""
    largest = next(rule.le for rule in Serving.model_fields["load_timeout_s"].metadata if hasattr(rule, "le"))
    for name in ("staging.load_candidate", "staging.load_baseline"):
        task = release.get_task(name)
        assert "timeout_s" in task.template_fields
        assert "['load_timeout_s']" in task.timeout_s  # type: ignore[union-attr]
        # As much for the loads as for getting ready after them.
        assert task.execution_timeout.total_seconds() > 2 * largest  # type: ignore[union-attr]


def test_no_time_limit_that_skips_the_rollback(release: DAG) -> None:
    """The run has no time limit of its own, for that would skip the teardowns; and nothing but a request starts it."""
    assert release.dagrun_timeout is None
    assert release.schedule is None


def test_restoring_is_tried_longest(release: DAG) -> None:
    """The task that brings users back to the stable version gives up last."""
    retries = {task.task_id: task.retries or 0 for task in release.tasks}
    assert retries["rollout.restore_stable"] == max(retries.values()) >= 10


def test_long_waits_hold_no_worker(release: DAG) -> None:
    """Pods and the analysis are waited for in the triggerer."""
    for task_id in ("prepare.convert", "staging.benchmark"):
        task: Any = release.get_task(task_id)
        # A mapped task keeps its arguments until it is known how many there will be.
        arguments = task.partial_kwargs if task.is_mapped else vars(task)
        assert arguments["deferrable"] is True


def test_a_conversion_may_take_as_long_as_a_release_file_may_say(release: DAG) -> None:
    """The task's own limit is above the longest start, the longest conversion and its last word together."""
    longest = LONGEST_STARTUP_S + LONGEST_CONVERSION_S + 60
    assert release.get_task("prepare.convert").execution_timeout.total_seconds() > longest


def test_a_version_that_is_published_already_skips_its_conversion_alone(release: DAG) -> None:
    """Choosing finds out for itself, and publishing checks what is there; a conversion that failed stops both."""
    after_skipped = {task.task_id for task in release.tasks if task.trigger_rule.value == "none_failed"}
    assert after_skipped == {"prepare.choose_variant", "prepare.publish"}


def test_parsing_imports_nothing_that_only_tasks_need() -> None:
    """No Kubernetes client, HTTP client, gRPC or gates' library, and no schema of the release file is built: all DAG
    files are read in a process of its own.
    """
    program = (
        "import json, sys, runpy; [runpy.run_path(name) for name in sys.argv[1:]];"
        "from slipway_core.spec.release_file import ReleaseSpec;"
        "print('RESULT', json.dumps([ReleaseSpec.__pydantic_complete__, sorted(sys.modules)]))"
    )
    command = [sys.executable, "-c", program, *(str(DAGS / name) for name in FILES)]
    paths = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")])
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    schema_is_built, modules = json.loads(line.removeprefix("RESULT"))
    assert not schema_is_built
    assert set(modules) & ONLY_TASKS_NEED == set()


def test_waiting_releases_do_not_hold_up_others(release: DAG) -> None:
    """Far more runs than models may be under way, since those that wait hold no worker; none is limited by its kind."""
    assert release.max_active_runs >= 1000
    for task in release.tasks:
        assert getattr(task, "max_active_tis_per_dag", None) is None
        assert task.depends_on_past is False


def test_only_benchmarks_share_the_staging_servers_pool(release: DAG) -> None:
    """One slot, held also while the benchmark waits for its pod; everything else is in Airflow's own pool."""
    pools = {
        task.task_id: getattr(task, "partial_kwargs", {}).get("pool") or task.pool for task in release.tasks
    }
    assert {name for name, pool in pools.items() if pool == STAGING_POOL.name} == {"staging.benchmark"}
    assert set(pools.values()) == {STAGING_POOL.name, "default_pool"}
    assert (STAGING_POOL.slots, STAGING_POOL.include_deferred) == (1, True)


def test_the_way_back_outranks_every_other_task(release: DAG) -> None:
    """By absolute weights: with the default the first tasks of a run come first, and the rollback last."""
    weights = {
        task.task_id: getattr(task, "partial_kwargs", {}).get("priority_weight") or task.priority_weight
        for task in release.tasks
    }
    back = weights.pop("rollout.restore_stable")
    assert back > max(weights.values())
    assert weights["rollout.shift_traffic"] > weights["admit"]
    assert release.default_args["weight_rule"] == "absolute"


@pytest.mark.parametrize("name", FILES)
def test_dag_files_are_wiring(name: str) -> None:
    """A DAG file reaches for no client library itself and reads no Airflow variable while it is parsed."""
    text = (DAGS / name).read_text()
    for word in (
        "boto3",
        "import kubernetes",
        "tritonclient",
        "import requests",
        "Variable.get",
        "get_connection",
    ):
        assert word not in text


def test_a_rollback_by_hand_concludes_whatever_happened(bag: DagBag) -> None:
    """The lock is given back and the record closed by a teardown, and a reason must be given."""
    dag = bag.dags[ROLLBACK]
    staging = {f"staging.{task}" for task in ("begin", "prepare", "load", "validate", "unload")}
    assert set(dag.task_ids) == {"admit", *staging, "approve", "roll_back", "conclude", "announce"}
    assert {"staging.validate", "approve"} <= ancestors(dag, "roll_back")
    assert dag.get_task("staging.unload").is_teardown
    assert dag.get_task("conclude").is_teardown
    assert dag.get_task("conclude").on_failure_fail_dagrun
    with pytest.raises(ParamValidationError):
        fill_in(dag, {"model": "digits", "reason": ""})
    fill_in(dag, {"model": "digits", "reason": "labels were swapped"})
    assert set(dag.params) == set(ROLLBACK_PARAMETERS)


@pytest.mark.parametrize(
    "task_id",
    [
        "prepare.publish",
        "staging.prepare",
        "staging.load_candidate",
        "staging.load_baseline",
        "rollout.arm_rollback",
    ],
)
def test_what_moves_or_reads_the_models_bytes_has_hours(release: DAG, task_id: str) -> None:
    """A version of 140 GB is neither copied, loaded nor read within the limit of the tasks that only ask something."""
    limit = release.get_task(task_id).execution_timeout
    assert limit is not None
    assert limit >= timedelta(hours=2)


@pytest.mark.parametrize("loaded", [None, {"baseline": None, "not_compared": "an engine of old"}])
def test_gates_take_staging_as_it_was_loaded(release: DAG, loaded: dict[str, Any] | None) -> None:
    """The gates see what the baseline's load left; where nothing is live that task is skipped, and has left nothing."""
    prepared = {"baseline": {"name": "digits_baseline"}, "not_compared": ""}
    answers = {"staging.prepare": prepared, "staging.load_baseline": loaded}
    ti = SimpleNamespace(xcom_pull=lambda task_ids: answers[task_ids])
    for task_id in ("staging.validate", "staging.benchmark"):
        template = getattr(release.get_task(task_id), "staging")  # noqa: B009  no attribute of every operator
        text = SandboxedEnvironment().from_string(template).render(ti=ti)
        assert json.loads(text) == (loaded or prepared)


@pytest.mark.parametrize(
    ("variable", "written"),
    [
        ("SLIPWAY_SWEEP_CRON", "every ten minutes"),
        ("SLIPWAY_GC_DRY_RUN", "flase"),
        ("SLIPWAY_SWEEP_CORN", "x"),
    ],
)
def test_a_wrong_setting_is_an_import_error_and_switches_no_workflow_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, written: str
) -> None:
    """Airflow's home page names it, and `model_intake` is there with its default schedule."""
    monkeypatch.setenv(variable, written)
    for name in (SETTINGS_FILE, "model_intake.py"):
        (tmp_path / name).write_text((DAGS / name).read_text(encoding="utf-8"), encoding="utf-8")
    bag = DagBag(str(tmp_path), safe_mode=True)
    ((file, error),) = bag.import_errors.items()
    assert file.endswith(SETTINGS_FILE)
    assert variable in error
    schedule: Any = bag.dags[INTAKE].schedule
    assert schedule.timetable.expression == "*/10 * * * *"
