"""AdmitReleaseOperator and ConcludeReleaseOperator: who may begin a release, and how one ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.admission.facts import AdmissionReader
from slipway.release_run import StableVersion
from slipway.traffic.streams import preflight
from slipway_core.errors import (
    AlreadyReleasedError,
    InputMissingError,
    ModelInvalidError,
    SlipwayError,
    SpecError,
    StreamsUnreadError,
    TransientError,
    UnknownModelError,
    UserError,
    VersionInvalidError,
)
from slipway_core.spec.release_file import load_model_spec
from tests.support.release.admission import FORM, RELEASE_FILE, Admit, cause, context, holder, kinds, record


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
    monkeypatch.setattr(AdmissionReader, "_stable", lambda self: live)
    assert admit().stable == live
    assert record(landed).state().stable_storage_uri == live.storage_uri


def test_older_version_does_not_go_over_a_newer_one(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases that queued may come out of order: the older one is refused, unless it is asked for by name."""
    live = StableVersion(version=3, storage_uri=f"s3://{landed.bucket}/models/digits/3/repository")
    monkeypatch.setattr(AdmissionReader, "_stable", lambda self: live)
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
    assert required.gates == ("smoke_test", "validate", "benchmark")


def test_a_critical_model_needs_a_second_person(
    landed: ModelStoreHook, admit: Admit, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its promotion waits for one by default; the release file may say otherwise."""
    live = StableVersion(version=1, storage_uri=f"s3://{landed.bucket}/models/digits/1/repository")
    monkeypatch.setattr(AdmissionReader, "_stable", lambda self: live)
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


def test_a_release_that_nobody_waits_for_waits_for_its_release_file(
    landed: ModelStoreHook, releases: Path
) -> None:
    """Airflow knew the model, so the file is on its way to this worker: it is tried again, and says what for."""
    (releases / "digits.yaml").unlink()
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=landed.bucket)
    run = SimpleNamespace(run_type="operator_triggered", triggering_user_name=None)
    given: Any = {**context("digits-2", params=FORM), "dag_run": run}
    with pytest.raises(TransientError, match=r"digits\.yaml"):
        operator.execute(given)


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


@pytest.mark.parametrize(
    ("written", "serving", "is_admitted"),
    [
        (b"model_transaction_policy { decoupled: true }", "", False),
        (b"model_transaction_policy { decoupled: true }", "serving: {decoupled: false}\n", True),
        (b"model_transaction_policy { decoupled: false }", "", True),
    ],
    ids=["decoupled", "the release file takes it out", "single responses"],
)
def test_streams_that_nobody_would_read_are_refused_on_admission(
    landed: ModelStoreHook,
    releases: Path,
    admit: Admit,
    monkeypatch: pytest.MonkeyPatch,
    written: bytes,
    serving: str,
    is_admitted: bool,
) -> None:
    """A decoupled model over one that is live in Standard mode: before a pod runs, with what to write instead."""
    live = StableVersion(version=1, storage_uri=f"s3://{landed.bucket}/models/digits/1/repository")
    monkeypatch.setattr(AdmissionReader, "_stable", lambda self: live)
    monkeypatch.setattr(preflight, "observe_service", lambda hook: SimpleNamespace(dialect="Standard"))
    landed.write("incoming/digits/2/config.pbtxt", written)
    (releases / "digits.yaml").write_text(RELEASE_FILE + serving)
    if is_admitted:
        assert admit().version == 2
        return
    with pytest.raises(AirflowFailException, match="answers_read_by: metrics") as caught:
        admit()
    assert cause(caught) is StreamsUnreadError
    assert holder(landed) is None
