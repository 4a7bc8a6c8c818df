"""AdmitReleaseOperator and ConcludeReleaseOperator: who may begin a release, and how one ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType, TaskDeferred
from airflow.sdk.execution_time.comms import ErrorResponse
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators import release
from slipway.operators.release import AdmitReleaseOperator, ConcludeReleaseOperator
from slipway.release_record.lock import LockOwner
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion

from include.model_release.errors import (
    AlreadyReleasedError,
    ClusterUnavailableError,
    InputMissingError,
    ModelInvalidError,
    ReleaseInProgressError,
    SlipwayError,
    SpecError,
    StoreUnavailableError,
    UnknownModelError,
    UserError,
    VersionInvalidError,
)
from include.model_release.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    StageFinished,
    StageStarted,
)
from include.model_release.spec.release_file import load_model_spec

RELEASE_FILE = "model: digits\nsource: {format: onnx, model_file: model.onnx, golden_file: golden.npz}\n"
LOCK = "records/digits/active.json"
FORM: dict[str, Any] = {"model": "digits", "version": 2}
Admit = Callable[..., ReleaseRun]


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """A folder with the release file of `digits`."""
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE)
    return tmp_path


@pytest.fixture
def landed(store: ModelStoreHook) -> ModelStoreHook:
    """A bucket in which training has left version 2."""
    for name in ("model.onnx", "golden.npz"):
        store.write(f"incoming/digits/2/{name}", b"content")
    store.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2})
    return store


@pytest.fixture
def admit(store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch) -> Admit:
    """Asks for a release in a cluster where nothing is live yet; `running` are the runs that are under way."""
    monkeypatch.setattr(release, "look", lambda hook: None)

    def ask(run_id: str = "digits-2", running: tuple[str, ...] = (), **params: Any) -> ReleaseRun:
        operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=store.bucket)
        return ReleaseRun.parse(operator.execute(context(run_id, running, {**FORM, **params})))

    return ask


def context(run_id: str, running: tuple[str, ...] = (), params: dict[str, Any] | None = None) -> Any:
    """Return a task's context in a world where the given runs are under way."""

    def state(dag_id: str, asked: str) -> str:
        assert dag_id == "model_release"
        return "running" if asked in running else "failed"

    return {
        "run_id": run_id,
        "params": params or {},
        "dag": SimpleNamespace(dag_id="model_release"),
        "ti": SimpleNamespace(get_dagrun_state=state),
        "dag_run": SimpleNamespace(triggering_user_name="alice"),
    }


def conclude(release_run: ReleaseRun) -> bool:
    """End the release, as the teardown does; say whether its run is a successful one."""
    operator = ConcludeReleaseOperator(task_id="conclude", release=release_run.model_dump_json())
    try:
        operator.execute(context(release_run.release_id, (release_run.release_id,)))
    except AirflowFailException:
        return False
    return True


def record(store: ModelStoreHook, run_id: str = "digits-2", version: int = 2) -> ReleaseRecord:
    """Return the version's record as this run writes it."""
    return ReleaseRecord(store, "digits", version, run_id)


def kinds(store: ModelStoreHook) -> list[str]:
    """Return the kinds of the events of version 2."""
    return [event.kind for event in record(store).events()]


def holder(store: ModelStoreHook) -> str | None:
    """Return the run that holds the model's lock."""
    held = store.read_json(LOCK)
    return None if held is None else str(held["release_id"])


def cause(caught: pytest.ExceptionInfo[BaseException]) -> type[BaseException | None]:
    """Return the class of the project's own error behind Airflow's."""
    return type(caught.value.__cause__)


def test_first_release_is_admitted(landed: ModelStoreHook, admit: Admit) -> None:
    """A version that has landed is admitted: the lock is taken, the record open, and nothing is live to return to."""
    release_run = admit()
    assert (release_run.release_id, release_run.model, release_run.version) == ("digits-2", "digits", 2)
    assert release_run.stable is None
    assert holder(landed) == "digits-2"
    assert kinds(landed) == ["release_started"]
    evidence: Any = landed.read_json(f"{release_run.evidence_prefix}release.json")
    assert evidence["params"] == FORM


def test_what_is_live_is_noted(landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that is live when the release begins is where a rollback will end."""
    live = StableVersion(version=1, storage_uri=f"s3://{landed.bucket}/models/digits/1/repository")
    monkeypatch.setattr(AdmitReleaseOperator, "_stable", lambda self, spec: live)
    assert admit().stable == live
    assert record(landed).state().stable_storage_uri == live.storage_uri


def test_older_version_does_not_go_over_a_newer_one(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases that queued may come out of order: the older one is refused, unless it is asked for by name."""
    live = StableVersion(version=3, storage_uri=f"s3://{landed.bucket}/models/digits/3/repository")
    monkeypatch.setattr(AdmitReleaseOperator, "_stable", lambda self, spec: live)
    with pytest.raises(AirflowFailException, match="newer version") as caught:
        admit()
    assert cause(caught) is AlreadyReleasedError
    assert holder(landed) is None
    assert admit(force=True).stable == live


def test_form_changes_the_release_file_for_one_run(landed: ModelStoreHook, admit: Admit) -> None:
    """Steps and approval of the form replace the release file's, where they are no less strict."""
    steps = [{"weight": 1, "bake_s": 480}, {"weight": 99, "bake_s": 600}]
    rollout = admit(steps=steps, wait_for_approval=True).spec.rollout
    assert [step.weight for step in rollout.steps] == [1, 99]
    assert rollout.approval.before_canary is True
    required = record(landed).state().required
    assert required is not None
    assert (required.weights, required.approvals) == ((), ("canary",)), "nothing is live: there are no steps"


LESS: dict[str, dict[str, Any]] = {
    "straight to 99 %": {"steps": [{"weight": 99, "bake_s": 10}]},
    "another window": {"window_s": 1},
}


@pytest.mark.parametrize("form", LESS.values(), ids=LESS)
def test_form_cannot_ask_for_less_care(
    form: dict[str, Any], landed: ModelStoreHook, admit: Admit, releases: Path
) -> None:
    """Nobody may, but whom the release file names; the error says how much less it is and who may."""
    with pytest.raises(AirflowFailException, match=r"less care.*rollout\.may_relax") as caught:
        admit(**form)
    assert cause(caught) is UserError
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {may_relax: [bob]}\n")
    with pytest.raises(AirflowFailException, match="less care"):
        admit(**form)
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {may_relax: [bob, alice]}\n")
    assert admit(**form)


def test_who_started_it_and_why_is_in_the_record(landed: ModelStoreHook, admit: Admit) -> None:
    """With what the release must prove before each raise."""
    admit(reason="the new labels")
    started = record(landed).events()[0]
    assert (started.data.triggered_by, started.data.reason) == ("alice", "the new labels")
    required = record(landed).state().required
    assert required is not None
    assert required.gates == ("validate", "benchmark")


def test_a_critical_model_needs_a_second_person(
    landed: ModelStoreHook, admit: Admit, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its promotion waits for one by default; the release file may say otherwise."""
    live = StableVersion(version=1, storage_uri=f"s3://{landed.bucket}/models/digits/1/repository")
    monkeypatch.setattr(AdmitReleaseOperator, "_stable", lambda self, spec: live)
    (releases / "digits.yaml").write_text(f"critical: true\n{RELEASE_FILE}")
    admit()
    required = record(landed).state().required
    assert required is not None
    assert (required.approvals, required.by_other) == (("promotion",), True)


BAD_FORMS: dict[str, tuple[dict[str, Any], type[SlipwayError]]] = {
    "unknown model": ({"model": "didgits"}, UnknownModelError),
    "model that climbs": ({"model": "../digits"}, UnknownModelError),
    "model with a slash": ({"model": "digits/2"}, UnknownModelError),
    "upper case": ({"model": "Digits"}, UnknownModelError),
    "version no number": ({"version": "two"}, VersionInvalidError),
    "version zero": ({"version": 0}, VersionInvalidError),
    "version true": ({"version": True}, VersionInvalidError),
    "version that never landed": ({"version": 9}, InputMissingError),
    "an unknown parameter": ({"stepz": 3}, UserError),
    "falling weights": ({"steps": [{"weight": 9, "bake_s": 20}, {"weight": 5, "bake_s": 20}]}, SpecError),
    "a step shorter than a window": ({"steps": [{"weight": 9, "bake_s": 2}]}, SpecError),
}


@pytest.mark.parametrize(("params", "error"), BAD_FORMS.values(), ids=BAD_FORMS)
def test_bad_request_fails_at_once_and_leaves_nothing(
    landed: ModelStoreHook, admit: Admit, params: dict[str, Any], error: type[SlipwayError]
) -> None:
    """What a person must correct fails without retries, and leaves neither lock nor record."""
    with pytest.raises(AirflowFailException) as caught:
        admit(**params)
    assert cause(caught) is error
    assert landed.entries("records/") == []
    assert landed.entries("models/") == []


@pytest.mark.parametrize("missing", ["model.onnx", "golden.npz", "ready.json"])
def test_incomplete_version_is_named(landed: ModelStoreHook, admit: Admit, missing: str) -> None:
    """A file that training should have left, ready.json included, is named when it is not there."""
    landed.delete(f"incoming/digits/2/{missing}")
    with pytest.raises(AirflowFailException, match=missing) as caught:
        admit()
    assert cause(caught) is InputMissingError


def test_file_that_ready_promises_must_be_there(landed: ModelStoreHook, admit: Admit) -> None:
    """Every file that ready.json lists must have landed."""
    files = {"vocabulary.txt": "0" * 64}
    landed.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2, "files": files})
    with pytest.raises(AirflowFailException, match=r"vocabulary\.txt"):
        admit()


def test_ready_of_another_version_is_refused(landed: ModelStoreHook, admit: Admit) -> None:
    """A ready.json that speaks of another version is not taken for this one's."""
    landed.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 3})
    with pytest.raises(AirflowFailException, match="another version") as caught:
        admit()
    assert cause(caught) is UserError


def test_typo_in_the_release_file_is_located(landed: ModelStoreHook, admit: Admit, releases: Path) -> None:
    """A wrong key in the release file is told with file, line, key and the nearest valid one."""
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout:\n  windows_s: 5\n")
    with pytest.raises(AirflowFailException, match=r"(?s)digits\.yaml.*4.*windows_s.*window_s") as caught:
        admit()
    assert cause(caught) is SpecError


# --- one release of a model at a time ---


def test_lease_that_does_not_outlast_a_dead_triggerer_is_refused(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is done, with what to change on either side; a shorter threshold admits the same release."""
    monkeypatch.setenv("AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD", "60")
    with pytest.raises(AirflowFailException, match=r"set `rollout.lease_s` to 85 or more"):
        admit()
    assert holder(landed) is None
    monkeypatch.setenv("AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD", "15")
    admit()


def test_second_release_is_refused(landed: ModelStoreHook, admit: Admit, releases: Path) -> None:
    """Where the release file says so a second release is refused and told which is in its way."""
    (releases / "digits.yaml").write_text(RELEASE_FILE + "rollout: {on_concurrent_release: refuse}\n")
    admit("digits-1")
    with pytest.raises(AirflowFailException, match="digits-1") as caught:
        admit("digits-2", running=("digits-1",))
    assert cause(caught) is ReleaseInProgressError
    assert holder(landed) == "digits-1"
    assert kinds(landed) == ["release_started"]


@pytest.mark.parametrize(("status_code", "is_free"), [(404, True), (500, False)])
def test_lock_of_a_run_that_was_deleted_is_taken_over(
    status_code: int, is_free: bool, landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that Airflow does not know is not under way; where Airflow cannot tell, the lock stands."""

    def answers(dag_id: str, run_id: str) -> str:
        detail = {"status_code": status_code, "message": "no", "detail": None}
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))

    admit("digits-1")
    ours = context("digits-2", params=FORM)
    ours["ti"].get_dagrun_state = answers
    lock = release.model_lock(landed, "digits", ours)
    if is_free:
        assert lock.acquire(LockOwner("digits-2", 2)).release_id == "digits-2"
    else:
        with pytest.raises(AirflowRuntimeError):
            lock.acquire(LockOwner("digits-2", 2))
        assert holder(landed) == "digits-1"


def test_second_release_is_queued(landed: ModelStoreHook, admit: Admit) -> None:
    """A second release waits in the triggerer, and goes on when the first has ended; so none is lost."""
    first = admit("digits-1")
    with pytest.raises(TaskDeferred) as deferred:
        admit("digits-2", running=("digits-1",))
    assert deferred.value.method_name == "execute"
    conclude(first)
    assert admit("digits-2", running=("digits-1",)).release_id == "digits-2"


def test_dead_release_holds_nobody_up(landed: ModelStoreHook, admit: Admit) -> None:
    """A release whose run has ended without concluding does not keep the model."""
    admit("digits-1")
    assert admit("digits-2").release_id == "digits-2"
    assert holder(landed) == "digits-2"


def test_admission_that_is_run_again(landed: ModelStoreHook, admit: Admit) -> None:
    """A task that died after admitting, and is run again, admits the same release and begins it once."""
    assert admit() == admit(running=("digits-2",))
    assert kinds(landed) == ["release_started"]


def test_cluster_that_does_not_answer(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without knowing what is live nothing begins: to be tried again, with the lock given back."""

    def away(_: Any) -> None:
        raise ClusterUnavailableError("the cluster is away")

    monkeypatch.setattr(release, "look", away)
    with pytest.raises(ClusterUnavailableError):
        admit()
    assert landed.entries("records/") == []


def test_store_that_does_not_answer(
    cut_off_store: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the store nothing is concluded about the version: to be tried again."""
    monkeypatch.setattr(release, "look", lambda hook: None)
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=cut_off_store.bucket)
    with pytest.raises(StoreUnavailableError):
        operator.execute(context("digits-2", params=FORM))


# --- released before ---


def finish(store: ModelStoreHook, outcome: str, run_id: str = "earlier") -> None:
    """Let an earlier run have released version 2 with this outcome."""
    earlier = record(store, run_id)
    earlier.append(ReleaseStarted())
    earlier.append(ReleaseFinished(outcome=outcome, refused_by=None, reason="so it went"))


@pytest.mark.parametrize("outcome", ["promoted", "rolled_back"])
def test_version_that_met_users_is_not_released_again(
    landed: ModelStoreHook, admit: Admit, outcome: str
) -> None:
    """What was promoted or rolled back before is refused, unless it is asked for by name."""
    finish(landed, outcome)
    with pytest.raises(AirflowFailException, match=f"found {outcome}; its newest run is earlier") as caught:
        admit()
    assert cause(caught) is AlreadyReleasedError
    assert holder(landed) is None, "a refused request keeps no lock"
    assert admit(force=True).force is True
    assert record(landed).state().attempts == 2


def test_a_rollback_that_was_refused_does_not_make_its_version_new(
    landed: ModelStoreHook, admit: Admit
) -> None:
    """A later run about a promoted version, as a rollback by hand is one, may end as refused; promoted it stays."""
    record(landed, "earlier").append(ReleaseStarted())
    record(landed, "earlier").append(Promoted(storage_uri="s3://b/models/digits/2/repository"))
    finish(landed, "refused", "rollback-1")
    with pytest.raises(AirflowFailException, match="found promoted; its newest run is rollback-1"):
        admit()


@pytest.mark.parametrize("outcome", ["refused", "failed", "cancelled"])
def test_version_that_met_no_user_may_be_tried_again(
    landed: ModelStoreHook, admit: Admit, outcome: str
) -> None:
    """A release that ended before any user saw the version does not stand in the way of another."""
    finish(landed, outcome)
    admit()
    assert record(landed).state().attempts == 2


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_cleared_run_is_a_new_attempt(landed: ModelStoreHook, admit: Admit, outcome: str) -> None:
    """A run that has ended and is cleared in Airflow begins anew: its old end is not the new one's."""
    finish(landed, outcome, run_id="digits-2")
    admit(running=("digits-2",))
    state = record(landed).state()
    assert (state.attempts, state.outcome, state.reason) == (2, "open", None)


@pytest.mark.parametrize("outcome", ["promoted", "rolled_back"])
def test_cleared_run_that_met_users_is_refused(landed: ModelStoreHook, admit: Admit, outcome: str) -> None:
    """Clearing a run whose version was promoted or rolled back does not release it again by accident."""
    finish(landed, outcome, run_id="digits-2")
    with pytest.raises(AirflowFailException) as caught:
        admit(running=("digits-2",))
    assert cause(caught) is AlreadyReleasedError


# --- the end ---


@pytest.mark.parametrize(
    ("events", "outcome", "refused_by"),
    [
        ([], "cancelled", None),
        ([StageStarted(stage="convert")], "cancelled", None),
        ([StageFinished(stage="convert", outcome="failed", reason="r")], "failed", None),
        ([StageFinished(stage="stage", outcome="refused", reason="r")], "refused", "stage"),
        ([Promoted(storage_uri="s3://b/m")], "promoted", None),
    ],
    ids=["nothing was done", "stopped in a stage", "a stage failed", "a gate refused", "promoted"],
)
def test_conclusion_follows_from_the_record(
    landed: ModelStoreHook,
    admit: Admit,
    events: list[EventData],
    outcome: str,
    refused_by: str | None,
) -> None:
    """The end is what the events amount to; only a promotion makes the run a success; a second run changes nothing."""
    release_run = admit()
    for data in events:
        record(landed).append(data)
    assert conclude(release_run) is (outcome == "promoted")
    state = record(landed).state()
    assert (state.outcome, state.refused_by) == (outcome, refused_by)
    assert kinds(landed)[-1] == "release_finished"
    assert holder(landed) is None
    assert conclude(release_run) is (outcome == "promoted")
    assert kinds(landed).count("release_finished") == 1


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("{format: onnx}", "config.pbtxt"),
        ("{format: python, folder: model}", "model/config.pbtxt"),
        ("{format: repository}", "repository/tracker/config.pbtxt"),
    ],
)
def test_training_leaves_a_model_with_sequences(
    store: ModelStoreHook, releases: Path, admit: Admit, source: str, where: str
) -> None:
    """A canary would tear sequences apart: refused before a pod runs, wherever the configuration lies in incoming/."""
    target = {"{format: onnx}": "onnx", "{format: repository}": "ensemble"}.get(source, "python")
    (releases / "digits.yaml").write_text(
        f"model: digits\nsource: {source}\nconversion: {{target: {target}}}\n"
    )
    for name in (*load_model_spec(releases, "digits").required_files(), "model/model.py"):
        store.write(f"incoming/digits/2/{name}", b"")
    store.write(f"incoming/digits/2/{where}", b"sequence_batching { direct { } }")
    store.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2})
    with pytest.raises(
        AirflowFailException, match="requests of one sequence must all reach the same"
    ) as caught:
        admit()
    assert cause(caught) is ModelInvalidError
    assert holder(store) is None
    assert store.entries("records/") == []


def test_sequences_that_the_release_file_removes_are_no_hindrance(
    landed: ModelStoreHook, releases: Path, admit: Admit
) -> None:
    """`sequence_batching: null` takes training's out, so what is published has none."""
    landed.write("incoming/digits/2/config.pbtxt", b"sequence_batching { direct { } }")
    (releases / "digits.yaml").write_text(RELEASE_FILE + "serving: {sequence_batching: null}\n")
    assert admit().version == 2
