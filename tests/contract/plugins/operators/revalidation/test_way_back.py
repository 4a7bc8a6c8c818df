"""`on_drift: roll_back` over a real S3 protocol and an emulated cluster: once, to a good version, or not at all."""

from __future__ import annotations

import json

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.lock import LockOwner, lock_key
from slipway.release_record.record import ReleaseRecord
from slipway_core.operations.layout import OUTBOX_PREFIX
from slipway_core.operations.rejection import rejected_by
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.release.revalidation_run import LiveService, RevalidationRun, promoted, publish

pytestmark = pytest.mark.timeout(600)

OF_LIVE = "models/rent/2/repository/rent/2/model.onnx"


@pytest.fixture
def drifted(run: RevalidationRun, store: ModelStoreHook, service: LiveService) -> RevalidationRun:
    """Version 2 is live over version 1, both were promoted; a byte of version 2 was changed. No server answers."""
    for version in (1, 2):
        publish(store, version, slope=2.0 + version / 100)
        promoted(store, version)
    service.serve(2, f"http://{LOOPBACK}:{free_port()}")
    content = store.read(OF_LIVE) or b""
    store.write(OF_LIVE, content[:-1] + bytes([content[-1] ^ 1]))
    run.say(on_drift="roll_back")
    return run


def test_drift_leads_back_once(drifted: RevalidationRun) -> None:
    """A task that is run again names the same run; a later run of the workflow names none. It is in the finding."""
    drifted.look()
    (named,) = drifted.name_rollbacks()
    assert named["conf"]["model"] == "rent"
    assert (named["conf"]["version"], named["conf"]["leave"]) == (1, 2)
    assert "2-published" in named["conf"]["reason"]
    assert drifted.name_rollbacks() == [named]
    rollback = drifted.findings()["2-published"].rollback
    assert rollback is not None
    assert (rollback.run, rollback.to_version) == (named["trigger_run_id"], 1)
    with pytest.raises(Exception, match="2-published"):
        drifted.show()
    assert named["trigger_run_id"] in drifted.page()
    drifted.look()
    assert drifted.name_rollbacks() == []


def test_nothing_goes_back_unless_the_file_says_so(drifted: RevalidationRun) -> None:
    """The default is to tell people."""
    drifted.say(on_drift="notify")
    drifted.look()
    assert drifted.name_rollbacks() == []
    assert drifted.findings()["2-published"].is_open


def test_what_could_not_be_checked_never_goes_back(drifted: RevalidationRun, store: ModelStoreHook) -> None:
    """Not after any number of runs, although it is a finding by then."""
    content = store.read(OF_LIVE) or b""
    store.write(OF_LIVE, content[:-1] + bytes([content[-1] ^ 1]))
    for _ in range(3):
        drifted.look()
        assert drifted.name_rollbacks() == []
    assert "unchecked-answers" in drifted.open()


def test_a_release_under_way_is_not_rolled_back(drifted: RevalidationRun, store: ModelStoreHook) -> None:
    """Also one that began after the look; when it has ended and the finding is still there, the next run goes back."""
    drifted.look()
    store.write(lock_key("rent"), LockOwner("rent-3", 3).to_bytes())
    drifted.running.add("rent-3")
    assert drifted.name_rollbacks() == []
    assert "rent-3" in drifted.findings()["2-published"].not_rolled_back
    drifted.running.clear()
    drifted.look()
    assert len(drifted.name_rollbacks()) == 1
    assert drifted.findings()["2-published"].not_rolled_back == ""


def damage(store: ModelStoreHook) -> None:
    """Somebody has changed the version before, too."""
    store.write("models/rent/1/repository/rent/1/model.onnx", b"another model")


def reject(store: ModelStoreHook) -> None:
    """Somebody has rejected the version before."""
    ReleaseRecord(store, "rent", 1, "by-hand").append(rejected_by("alice", "it was wrong all the time"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(damage, "has changed since it was published, too"), (reject, "it was wrong all the time")],
)
def test_only_a_good_version_is_gone_back_to(
    spoil: object, why: str, drifted: RevalidationRun, store: ModelStoreHook
) -> None:
    """Where the version before is not good nobody is led to it, and the page says why."""
    spoil(store)  # type: ignore[operator]
    drifted.look()
    assert drifted.name_rollbacks() == []
    assert why in drifted.findings()["2-published"].not_rolled_back


def test_people_are_told_once_of_each_finding(
    drifted: RevalidationRun, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice `drift_found` with the page lies in the outbox when a finding opens, and none when it is seen again."""
    monkeypatch.setenv("SLIPWAY_NOTIFY", json.dumps([{"on": ["drift_found"], "to": "slack_models"}]))
    for _ in range(2):
        drifted.look()
        entries = [json.loads(store.read(one.key) or b"") for one in store.entries(OUTBOX_PREFIX)]
        (notice,) = [one["notice"] for one in entries]
        assert (notice["event"], notice["model"], notice["version"]) == ("drift_found", "rent", 2)
        assert notice["evidence"].endswith("/models/rent.html")
        assert notice["about"] == "2-published"
