"""FreezeReleasesOperator against a real S3 protocol; what a freeze and a window do to admission; who waits for it."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission import facts
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.release_record.holds import HoldReader
from slipway.release_run import ReleaseRun
from slipway.triggers import hold as hold_trigger
from slipway.triggers.hold import HoldChangedTrigger
from slipway_core.errors import ReleaseNotNowError, StoreUnavailableError
from slipway_core.operations.freezes import freezes_prefix, lifted_key
from slipway_core.spec.rollout.release_windows import DAYS, ReleaseWindow
from tests.support.release.admission import FORM, RELEASE_FILE, cause, context, holder, record
from tests.support.release.freezing import asks, frozen

END = "2099-01-01T00:00:00+00:00"


@pytest.fixture
def landed(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> ModelStoreHook:
    """A bucket in which training has left version 2, and a cluster without any."""
    monkeypatch.setattr(facts, "observe_service", lambda hook: None)
    for name in ("model.onnx", "golden.npz"):
        store.write(f"incoming/digits/2/{name}", b"content")
    store.write_json("incoming/digits/2/ready.json", {"model": "digits", "version": 2})
    return store


def admit(store: ModelStoreHook, releases: Path, rollout: str = "{}", **params: Any) -> Any:
    """Ask for a release of version 2 under a release file with this `rollout`."""
    (releases / "digits.yaml").write_text(f"{RELEASE_FILE}rollout: {rollout}\n")
    operator = AdmitReleaseOperator(task_id="admit", releases_dir=str(releases), bucket=store.bucket)
    return ReleaseRun.parse(operator.execute(context("digits-2", (), {**FORM, **params})))


def told(store: ModelStoreHook, model: str = "digits") -> str:
    """Return what holds a model; "" where nothing does."""
    hold = HoldReader(store, model, ()).hold((), None)
    return "" if hold is None else hold.reason


def soon() -> str:
    """Return the end of a freeze as a form tells it."""
    return (datetime.now(UTC) + timedelta(hours=2)).isoformat()


def closed_now() -> ReleaseWindow:
    """Return a window that opens the day after tomorrow."""
    day = DAYS[(datetime.now(UTC) + timedelta(days=2)).weekday()]
    return ReleaseWindow(days=(day,), opens="09:00", closes="10:00")


# --- freeze, thaw ---


def test_a_freeze_of_one_model_leaves_others_alone(store: ModelStoreHook, tmp_path: Path) -> None:
    """Its author, its end and its reason are what whoever is held reads; thawed, nothing is held."""
    asks(store, tmp_path, "freeze", who="bob", model="digits", until=soon(), reason="audit")
    assert "'digits' is frozen by bob until" in told(store)
    assert told(store).endswith("audit")
    assert told(store, "magika") == ""
    assert "Freeze of 'digits' lifted" in asks(store, tmp_path, "thaw", model="digits")
    assert told(store) == ""


def test_a_freeze_without_a_model_stops_the_line(store: ModelStoreHook, tmp_path: Path) -> None:
    """Every model is held; to thaw one model does not lift it."""
    asks(store, tmp_path, "freeze", who="bob", until=soon(), reason="audit")
    assert "every model is frozen by bob" in told(store)
    assert "every model is frozen by bob" in told(store, "magika")
    with pytest.raises(AirflowFailException, match="no freeze of 'digits'"):
        asks(store, tmp_path, "thaw", model="digits")
    asks(store, tmp_path, "thaw")
    assert told(store) == ""


def test_a_task_that_is_run_again_freezes_once(store: ModelStoreHook, tmp_path: Path) -> None:
    """One object for a run, however often it is tried."""
    until = soon()
    for _ in range(2):
        asks(store, tmp_path, "freeze", who="bob", until=until)
    assert len(store.entries(freezes_prefix(None))) == 1


def test_what_was_written_stays(store: ModelStoreHook, tmp_path: Path) -> None:
    """A freeze that was lifted, and who lifted it, can be read afterwards."""
    key = frozen(store)
    asks(store, tmp_path, "thaw", who="carol", reason="the audit is over")
    assert store.read(key) is not None
    assert store.read_json(lifted_key(key))["by"] == "carol"
    assert store.read_json(lifted_key(key))["reason"] == "the audit is over"


def test_a_freeze_keeps_what_was_in_front_of_its_author(landed: ModelStoreHook, tmp_path: Path) -> None:
    """The page that was named, and the newest event of the release that it stops."""
    run = admit(landed, tmp_path)
    landed.write("page.html", b"numbers")
    asks(landed, tmp_path, "freeze", who="bob", until=soon(), evidence="page.html")
    (entry,) = landed.entries(freezes_prefix(None))
    shown = landed.read_json(entry.key)["shown"]
    newest = record(landed).events()[-1].key
    assert [one["address"] for one in shown] == [landed.uri("page.html"), landed.uri(newest)]
    assert shown[0]["sha256"] == hashlib.sha256(b"numbers").hexdigest()
    assert "every model is frozen by bob" in told(landed)
    assert run.version == 2


def test_a_freeze_waits_for_no_evidence(landed: ModelStoreHook, tmp_path: Path) -> None:
    """A lock that cannot be read, as much else in bad times, is left out."""
    landed.write("records/digits/active.json", b"?")
    asks(landed, tmp_path, "freeze", who="bob", until=soon(), model="digits")
    assert "frozen by bob" in told(landed)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no end": ({"action": "freeze"}, "must have an end"),
    "an end without a zone": ({"action": "freeze", "until": "2099-01-01T00:00:00"}, "time zone"),
    "an end that is past": ({"action": "freeze", "until": "2001-01-01T00:00:00Z"}, "in the future"),
    "too far": ({"action": "freeze", "until": END}, "in the future"),
    "nobody": ({"action": "freeze", "until": END, "who": None}, "it is unknown who"),
    "nothing to lift": ({"action": "thaw"}, "no freeze of every model"),
    "an override of nothing": (
        {"action": "override", "model": "digits", "version": 2},
        "nothing to override",
    ),
    "an override of every model": ({"action": "override"}, "for one version"),
    "an unknown parameter": ({"action": "thaw", "untill": END}, "did you mean `until`"),
}


@pytest.mark.parametrize(("params", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_refused(
    store: ModelStoreHook, tmp_path: Path, params: dict[str, Any], words: str
) -> None:
    """At once, with what to do, and nothing is written."""
    with pytest.raises(AirflowFailException, match=words):
        asks(store, tmp_path, **params)
    assert store.entries("records/") == []


# --- what is read ---


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\xff", b"[" * 9000, b"x" * (1 << 20)],
    ids=["empty", "{}", "binary", "deep", "huge"],
)
def test_a_freeze_that_cannot_be_read_is_never_none(store: ModelStoreHook, content: bytes) -> None:
    """Whoever asks is held, and told which object it is."""
    store.write(f"{freezes_prefix('digits')}20990101T000000Z-0123456789abcdef.json", content)
    assert "could not be read" in told(store)
    assert "0123456789abcdef" in told(store)
    assert told(store, "magika") == ""


def test_what_only_looks_like_the_end_of_a_freeze_lifts_nothing(store: ModelStoreHook) -> None:
    """An empty object in the place of what lifts it, or one that lifts another freeze."""
    first, second = frozen(store, reason="audit"), frozen(store, reason="holidays")
    store.write(lifted_key(first), b"")
    assert "could not be read" in told(store)
    store.write_json(
        lifted_key(first),
        {"by": "mallory", "at": END, "reason": "why", "kind": "lifted", "freeze_sha256": "0" * 64},
    )
    assert "audit" in told(store)
    assert "holidays" in told(store)
    assert second != first


def test_more_freezes_than_anybody_sets_are_not_read(store: ModelStoreHook) -> None:
    """A flood of objects holds, and costs one listing."""
    for number in range(201):
        store.write(f"{freezes_prefix('digits')}20990101T000000Z-{number:016x}.json", b"{}")
    assert "has more objects than can be read" in told(store)


def test_what_is_over_and_what_is_no_freeze_holds_nothing(store: ModelStoreHook) -> None:
    """Freezes that have ended are not even listed; a stray is skipped."""
    store.write(f"{freezes_prefix(None)}20010101T000000Z-0123456789abcdef.json", b"no freeze")
    store.write(f"{freezes_prefix(None)}README", b"")
    assert told(store) == ""


def test_a_store_that_is_away_holds(cut_off_store: ModelStoreHook) -> None:
    """Nobody knows whether there is a freeze."""
    assert "could not be read" in told(cut_off_store)
    with pytest.raises(StoreUnavailableError):
        HoldReader(cut_off_store, "digits", ()).causes(datetime.now(UTC))


# --- the start of a release ---


def test_a_release_that_meets_a_freeze_waits_without_the_lock(landed: ModelStoreHook, tmp_path: Path) -> None:
    """In the triggerer, whatever `force` says; when the freeze is lifted it is admitted."""
    frozen(landed)
    for force in (False, True):
        with pytest.raises(TaskDeferred) as deferred:
            admit(landed, tmp_path, force=force)
        assert isinstance(deferred.value.trigger, HoldChangedTrigger)
        assert deferred.value.method_name == "execute"
        assert holder(landed) is None
    asks(landed, tmp_path, "thaw")
    assert admit(landed, tmp_path).version == 2


def test_a_release_may_be_refused_instead(landed: ModelStoreHook, tmp_path: Path) -> None:
    """Where the release file says so; the message names the freeze and its end."""
    frozen(landed, reason="audit")
    with pytest.raises(AirflowFailException, match=r"frozen by bob until .* UTC: audit") as caught:
        admit(landed, tmp_path, "{on_hold: refuse}")
    assert cause(caught) is ReleaseNotNowError
    assert holder(landed) is None


def test_a_closed_window_holds_and_an_open_one_does_not(landed: ModelStoreHook, tmp_path: Path) -> None:
    """By the release file of the model."""
    day = closed_now().days[0]
    text = f'{{days: [{day}], opens: "09:00", closes: "10:00", time_zone: UTC}}'
    with pytest.raises(AirflowFailException, match=rf"no release window .* is open \({day} 09:00 to 10:00"):
        admit(landed, tmp_path, f"{{on_hold: refuse, release_windows: [{text}]}}")
    with pytest.raises(TaskDeferred):
        admit(landed, tmp_path, f"{{release_windows: [{text}]}}")
    every = f'{{days: [{", ".join(DAYS)}], opens: "00:00", closes: "24:00"}}'
    assert admit(landed, tmp_path, f"{{release_windows: [{text}, {every}]}}").version == 2


def test_what_cannot_be_read_is_waited_for_whatever_the_file_says(
    landed: ModelStoreHook, tmp_path: Path
) -> None:
    """Nobody knows whether there is anything to refuse for."""
    landed.write(f"{freezes_prefix(None)}20990101T000000Z-0123456789abcdef.json", b"?")
    with pytest.raises(TaskDeferred):
        admit(landed, tmp_path, "{on_hold: refuse}")


# --- overrides ---


def test_an_override_needs_another_person(landed: ModelStoreHook, tmp_path: Path) -> None:
    """The freeze's author may not; another may, for that version, and the record keeps all of it."""
    frozen(landed, by="bob", reason="audit")
    notes: list[str] = []
    with pytest.raises(AirflowFailException, match="a person other than"):
        asks(landed, tmp_path, "override", who="bob", notes=notes, model="digits", version=2)
    (note,) = notes
    assert note.startswith("digits: not done: bob may not override this freeze: every model is frozen by bob")
    assert "ask a colleague" in note
    for _ in range(2):
        asks(landed, tmp_path, "override", who="carol", model="digits", version=2, reason="users suffer")
    (event,) = record(landed).events()
    document = event.data.to_document()
    assert (document["by"], document["set_by"], document["reason"]) == ("carol", "bob", "users suffer")
    assert "frozen by bob" in document["hold"]
    (key,) = (entry.key for entry in landed.entries(freezes_prefix(None)))
    assert list(document["shown"]) == [{"address": landed.uri(key), "sha256": document["hold_sha256"]}]
    assert admit(landed, tmp_path).version == 2


def test_a_new_freeze_is_another_one(landed: ModelStoreHook, tmp_path: Path) -> None:
    """An override is of what was there."""
    frozen(landed, reason="audit")
    asks(landed, tmp_path, "override", model="digits", version=2)
    frozen(landed, reason="holidays")
    with pytest.raises(TaskDeferred):
        admit(landed, tmp_path)


def test_a_number_under_which_nothing_lies_is_not_overridden(store: ModelStoreHook, tmp_path: Path) -> None:
    """A typing error opens nothing."""
    frozen(store)
    with pytest.raises(AirflowFailException, match="there is no version 22"):
        asks(store, tmp_path, "override", model="digits", version=22)


# --- who waits ---


def fires(trigger: HoldChangedTrigger, act: Any = None, limit_s: float = 60.0) -> bool:
    """Run the trigger, as it is made again of what it says of itself; `act` when it has looked once."""
    path, arguments = trigger.serialize()
    assert path == "slipway.triggers.hold.HoldChangedTrigger"
    again = HoldChangedTrigger(**arguments)

    async def first() -> bool:
        looked = asyncio.Event()
        look = again._look

        def count(store: ModelStoreHook) -> tuple[str, int]:
            seen = look(store)
            loop.call_soon_threadsafe(looked.set)
            return seen

        loop = asyncio.get_running_loop()
        again._look = count  # type: ignore[method-assign]
        events = again.run()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.wait_for(looked.wait(), limit_s)
        if act is not None:
            await asyncio.to_thread(act)
        done, _ = await asyncio.wait({waiting}, timeout=limit_s)
        waiting.cancel()
        return bool(done)

    return asyncio.run(first())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger that looks often and fires at once."""
    monkeypatch.setattr(hold_trigger, "POLL_INTERVAL_S", 0.05)
    monkeypatch.setattr("airflow_provider_triton.triggers.pace.SHORTEST_S", 0.0)


ACTS: dict[str, Any] = {
    "lifted": lambda store, path: asks(store, path, "thaw"),
    "set": lambda store, path: frozen(store, "digits", reason="another"),
    "overridden": lambda store, path: asks(store, path, "override", model="digits", version=2),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_who_waits_wakes_when_something_changes(
    landed: ModelStoreHook, tmp_path: Path, quick: None, act: Any
) -> None:
    """A freeze that is set or lifted, and a person's override of it."""
    frozen(landed)
    trigger = HoldChangedTrigger.of(landed.bucket, "digits", 2, (), "aws_default")
    assert fires(trigger, lambda: act(landed, tmp_path))


def test_who_waits_wakes_in_any_case(
    landed: ModelStoreHook, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then, whatever the trigger sees: the task asks anew."""
    frozen(landed)
    trigger = HoldChangedTrigger.of(landed.bucket, "digits", 2, (closed_now(),), "aws_default")
    assert not fires(trigger, limit_s=1.0)
    monkeypatch.setattr(hold_trigger, "LIMIT_S", 0.5)
    assert fires(trigger)


def test_who_waits_wakes_when_the_freeze_ends(landed: ModelStoreHook, quick: None) -> None:
    """By itself, within one look."""
    frozen(landed, hours=3 / 3600)
    assert fires(HoldChangedTrigger.of(landed.bucket, "digits", 2, (), "aws_default"))
