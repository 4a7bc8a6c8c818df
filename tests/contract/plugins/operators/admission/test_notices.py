"""Who is told that a release has begun, is held and has ended; and that nothing waits for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.release_record import outbox
from slipway_core.operations.freezes import freezes_prefix
from slipway_core.operations.layout import OUTBOX_PREFIX
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseStarted,
    RolledBack,
    StageFinished,
    WeightIntended,
)
from tests.support.notifications.outbox import facts, notices_in, notify_of_everything
from tests.support.release.admission import FORM, RELEASE_FILE, Admit, conclude, context, record
from tests.support.release.freezing import asks, frozen

WHY = "0.93 is below 0.95"


def test_a_release_that_begins_is_told_once(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whom it was started and why; the same task that is run again tells nothing more."""
    notify_of_everything(monkeypatch)
    for _ in range(2):
        admit(running=("digits-2",), reason="weekly training")
    (notice,) = notices_in(landed)
    assert (notice.event, notice.model, notice.version) == ("started", "digits", 2)
    assert (notice.release_id, notice.dag_id) == ("digits-2", "model_release")
    assert notice.reason == "weekly training"
    assert facts(notice)["started by"] == "alice"


@pytest.mark.parametrize(
    ("events", "event", "reason"),
    [
        ([], "failed", "the run was stopped"),
        ([StageFinished(stage="convert", outcome="failed", reason=WHY)], "failed", WHY),
        ([StageFinished(stage="validate", outcome="refused", reason=WHY)], "refused", WHY),
        ([Promoted(storage_uri="s3://b/m")], "promoted", ""),
        (
            [
                WeightIntended(weight=5, storage_uri="s3://b/m", stable_storage_uri="s3://b/n"),
                StageFinished(stage="canary", outcome="refused", reason=WHY),
                RolledBack(stable_storage_uri="s3://b/n", candidate_requests=9, candidate_errors=3),
            ],
            "rolled_back",
            WHY,
        ),
    ],
    ids=["stopped", "failed", "refused", "promoted", "rolled back"],
)
def test_how_a_release_ends_is_told_once(
    landed: ModelStoreHook,
    admit: Admit,
    monkeypatch: pytest.MonkeyPatch,
    events: list[EventData],
    event: str,
    reason: str,
) -> None:
    """With the reason and where the reports are; a conclusion that is run again tells nothing more."""
    release_run = admit()
    notify_of_everything(monkeypatch)
    for data in events:
        record(landed).append(data)
    for _ in range(2):
        conclude(release_run)
    (notice,) = notices_in(landed)
    assert notice.event == event
    assert notice.reason.startswith(reason)
    assert notice.evidence == release_run.uri(release_run.evidence_prefix)
    if event == "refused":
        assert facts(notice)["refused by"] == "validate"


def test_an_end_that_was_told_and_not_written_is_told_again_under_its_name(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is killed between the two loses no notice: the next one repeats it, and its id tells that."""
    release_run = admit()
    notify_of_everything(monkeypatch)
    append = record(landed).append
    append(Promoted(storage_uri="s3://b/m"))
    conclude(release_run)
    (first,) = notices_in(landed)
    store_keys = [entry.key for entry in landed.entries("records/digits/2/")]
    landed.delete(store_keys[-1])
    conclude(release_run)
    assert {notice.id for notice in notices_in(landed)} == {first.id}


def test_a_late_conclusion_tells_nothing_of_another_release(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is concluded when the version is being released again says nothing about that."""
    late = admit()
    notify_of_everything(monkeypatch)
    record(landed, "digits-2-again").append(ReleaseStarted())
    record(landed, "digits-2-again").append(Promoted(storage_uri="s3://b/m"))
    conclude(late)
    assert notices_in(landed) == []


def test_a_release_without_receivers_puts_nothing_into_the_bucket(
    landed: ModelStoreHook, admit: Admit
) -> None:
    """Neither the release file nor the default names anybody."""
    conclude(admit())
    assert landed.entries(OUTBOX_PREFIX) == []


def test_a_hold_is_told_once_however_often_it_is_looked_at(
    landed: ModelStoreHook, releases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that waits looks again every few minutes; another freeze is another notice."""
    monkeypatch.setattr("slipway.operators.admission.facts.observe_service", lambda hook: None)
    notify_of_everything(monkeypatch)
    (releases / "digits.yaml").write_text(RELEASE_FILE)
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=landed.bucket)
    frozen(landed, reason="audit")
    kwargs: dict[str, str] = {}
    for _ in range(3):
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context("digits-2", (), FORM), None, **kwargs)
        kwargs = deferred.value.kwargs or {}
    (notice,) = notices_in(landed)
    assert (notice.event, facts(notice)["held"]) == ("held", "the start")
    assert "frozen by bob" in notice.reason
    frozen(landed, "digits", reason="another")
    with pytest.raises(TaskDeferred):
        operator.execute(context("digits-2", (), FORM), None, **kwargs)
    assert len({notice.id for notice in notices_in(landed)}) == 2
    for model in ("digits", None):
        asks(landed, tmp_path, "thaw", model=model)


def test_a_freeze_that_cannot_be_read_is_waited_for_and_not_told(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes and goes with the store; the log has it."""
    notify_of_everything(monkeypatch)
    landed.write(f"{freezes_prefix(None)}20991228T080000Z-0123456789abcdef.json", b"no freeze")
    with pytest.raises(TaskDeferred):
        admit()
    assert notices_in(landed) == []


def test_a_release_that_a_freeze_refuses_is_told_as_held(
    landed: ModelStoreHook, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was begun, so there is no end to tell."""
    notify_of_everything(monkeypatch)
    (releases / "digits.yaml").write_text(f"{RELEASE_FILE}rollout: {{on_hold: refuse}}\n")
    frozen(landed)
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=landed.bucket)
    with pytest.raises(AirflowFailException):
        operator.execute(context("digits-2", (), FORM))
    assert [notice.event for notice in notices_in(landed)] == ["held"]


def test_an_outbox_that_hangs_holds_no_release_up(
    landed: ModelStoreHook, admit: Admit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The put is left behind after its limit; the release is admitted, concluded and recorded as ever."""
    notify_of_everything(monkeypatch)
    never = threading.Event()
    monkeypatch.setattr(outbox.Outbox, "_put", lambda self, entry: never.wait(120))
    monkeypatch.setattr(outbox.Outbox.tell, "__kwdefaults__", {"limit_s": 0.2})
    began = time.monotonic()
    release_run = admit()
    record(landed).append(Promoted(storage_uri="s3://b/m"))
    assert conclude(release_run) is True
    assert time.monotonic() - began < 100
    assert record(landed).state().outcome == "promoted"
    never.set()
