"""Which versions a rollback by hand may lead users to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway_core.record.kinds import (
    Approved,
    ReleaseFinished,
    ReleaseStarted,
    RolledBack,
    StageFinished,
    VersionRejected,
    VersionUnrejected,
)
from tests.support.canary.doubles import ServiceDouble
from tests.support.release.freezing import frozen
from tests.support.release.proofs import promoted
from tests.support.release.rollback_by_hand import (
    RELEASE_FILE,
    RUN,
    RunDouble,
    finish,
    roll_back,
    uri,
    validated,
)
from tests.support.store.publication import Publication
from tests.support.store.signing_keys import key_of

# --- which versions users may be led to ---


def test_a_version_that_was_never_published_is_refused(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble
) -> None:
    """A wrong number is told before anything is changed."""
    assert service.model is not None
    patches = len(service.patches)
    for emergency in (False, True):
        with pytest.raises(AirflowFailException, match="version 7 of 'digits' is not published"):
            name_it(RunDouble(version=7, newer=True, emergency=emergency))
    assert len(service.patches) == patches


def test_an_earlier_version_is_live_again(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """A version that was promoted, is what was published and was tried on staging may be named."""
    run = RunDouble(version=earlier)
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, earlier): 100}


def test_nothing_is_done_where_another_version_is_live_by_now(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble
) -> None:
    """A run that begins late leaves the version alone that it was not asked to leave."""
    patches = len(service.patches)
    with pytest.raises(
        AirflowSkipException, match="version 3 was to be rolled back, but version 2 is live now"
    ):
        name_it(RunDouble(leave=3))
    assert len(service.patches) == patches
    assert name_it(RunDouble(leave=2)).version == 2


@pytest.mark.parametrize("emergency", [False, True])
def test_a_version_that_was_refused_is_refused_here_too(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
    prepare_version: Callable[..., Publication],
) -> None:
    """To be published is not enough: no gate has let this one through, and an emergency does not either."""
    one = prepare_version(5)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden)
    record = ReleaseRecord(store, "digits", 5, "digits-5")
    record.append(ReleaseStarted())
    record.append(StageFinished(stage="validate", outcome="refused", reason="accuracy"))
    record.append(ReleaseFinished(outcome="refused", refused_by="validate"))
    patches = len(service.patches)
    with pytest.raises(
        AirflowFailException, match=r"no users may be sent to version 5 .* it was never promoted"
    ):
        name_it(RunDouble(version=5, emergency=emergency))
    assert len(service.patches) == patches


def test_a_version_that_is_rejected_meanwhile_gets_nobody(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """The way back asks for the version before each patch: one that met a conflict is not sent after the rejection."""
    run = RunDouble(version=earlier)
    release_run = name_it(run)
    validated(store, release_run)
    patch, sent = service.patch, 0

    def conflict(body: dict[str, Any], limit_s: float | None = None) -> bool:
        nonlocal sent
        sent += 1
        service.patch = patch  # type: ignore[method-assign]
        rejected = VersionRejected(reason="wrong labels", by="bob")
        ReleaseRecord(store, "digits", earlier, "rejection-1").append(rejected)
        return False

    service.patch = conflict  # type: ignore[method-assign]
    assert service.model is not None
    before = service.model.users()
    with pytest.raises(AirflowFailException, match="rejected by bob"):
        roll_back(release_run, run)
    assert (sent, service.model.users()) == (1, before)


def test_a_version_that_was_rolled_back_is_refused(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook, earlier: int
) -> None:
    """It was promoted once and taken back since: it needs a release of its own."""
    record = ReleaseRecord(store, "digits", earlier, "rollback-0")
    record.append(ReleaseStarted())
    record.append(RolledBack(stable_storage_uri="", candidate_requests=None, candidate_errors=None))
    with pytest.raises(AirflowFailException, match="it was rolled back"):
        name_it(RunDouble(version=earlier))


def test_a_newer_version_must_be_asked_for_as_such(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Forward is no way back, also for a version that was promoted once; asked for, another person must approve."""
    back = RunDouble(emergency=True)
    finish(name_it(back), back)
    promoted(store, "digits", 2)
    with pytest.raises(AirflowFailException, match=r"rejected by alice .* labels were swapped"):
        name_it(RunDouble(version=2, newer=True))
    left = ReleaseRecord(store, "digits", 2, "manual__1")
    rejection = left.state().rejection
    assert rejection is not None
    left.append(VersionUnrejected(reason="they were not", by="carol", rejection_seq=rejection.seq))
    with pytest.raises(AirflowFailException, match="version 2 of 'digits' is not older than version 1"):
        name_it(RunDouble(version=2))
    run = RunDouble(version=2, newer=True)
    release_run = name_it(run)
    validated(store, release_run)
    with pytest.raises(AirflowFailException, match="no approval"):
        roll_back(release_run, run)
    _, digest = ModelRegistry(store).require_with_digest("digits", 2)
    record = ReleaseRecord(store, "digits", 1, RUN)
    for by, refusal in (("alice", "by a person other than alice"), ("bob", None)):
        record.append(Approved(before="promotion", by=by, manifest_sha256=digest))
        if refusal is not None:
            with pytest.raises(AirflowFailException, match=refusal):
                roll_back(release_run, run)
    roll_back(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 2): 100}


@pytest.mark.parametrize("emergency", [False, True])
def test_an_earlier_version_that_was_changed_is_refused(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
) -> None:
    """Bytes that were swapped since they were published never come to users; nothing was changed for them."""
    store.write(f"models/digits/{earlier}/repository/digits/{earlier}/model.onnx", b"an onnx modeL")
    patches = len(service.patches)
    with pytest.raises(
        AirflowFailException, match=f"repository of version {earlier} of 'digits' is not what was published"
    ):
        name_it(RunDouble(version=earlier, emergency=emergency))
    assert len(service.patches) == patches


def test_an_earlier_version_must_be_signed_where_a_key_is_named(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, earlier: int, tmp_path: Path
) -> None:
    """The key that the release file names counts for the way back by a person's choice too."""
    key_of(tmp_path)
    signing = f"publish: {{signing: {{private_key_file: {tmp_path / 'key.pem'}}}}}\n"
    (tmp_path / "digits.yaml").write_text(RELEASE_FILE + signing)
    with pytest.raises(AirflowFailException, match=f"version {earlier} of 'digits' is not signed"):
        name_it(RunDouble(version=earlier))
    assert name_it(RunDouble(emergency=True)).stable is not None, "what was live before is asked nothing"


def test_a_parameter_that_there_is_not_is_refused(name_it: Callable[..., ReleaseRun]) -> None:
    """A typo in the run's conf is told with the nearest name, and does not pass for its default."""
    with pytest.raises(AirflowFailException, match=r"no parameter `emergncy`.*did you mean `emergency`"):
        name_it(RunDouble(emergncy=True))


# --- rejected versions ---


@pytest.mark.parametrize("emergency", [False, True])
def test_nobody_is_led_back_by_name_to_a_rejected_version(
    emergency: bool,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
) -> None:
    """Promoted once is not enough, also not in an emergency; the message names who rejected it and why."""
    ReleaseRecord(store, "digits", earlier, "manual__1").append(
        VersionRejected(reason="wrong answers", by="bob")
    )
    patches = len(service.patches)
    with pytest.raises(AirflowFailException, match=r"it was rejected by bob .* wrong answers.*`unreject`"):
        name_it(RunDouble(version=earlier, emergency=emergency))
    assert len(service.patches) == patches


def test_once_its_rejection_is_lifted_a_promoted_version_may_be_named(
    name_it: Callable[..., ReleaseRun], store: ModelStoreHook, earlier: int
) -> None:
    """What the message says to do is enough."""
    said = ReleaseRecord(store, "digits", earlier, "manual__1")
    seq = said.append(VersionRejected(reason="wrong answers", by="bob")).seq
    said.append(VersionUnrejected(reason="it was the data", by="carol", rejection_seq=seq))
    assert name_it(RunDouble(version=earlier)).stable is not None


@pytest.mark.parametrize("model", [None, "digits"])
def test_a_rollback_by_hand_waits_for_no_freeze(
    model: str | None,
    name_it: Callable[..., ReleaseRun],
    service: ServiceDouble,
    store: ModelStoreHook,
    earlier: int,
) -> None:
    """Neither for one of its model nor for one of every model: the version that was named gets all users."""
    frozen(store, model)
    run = RunDouble(version=earlier)
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, earlier): 100}


def test_the_emergency_way_to_the_version_before_asks_nothing(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Also where somebody has rejected it since: it has served until now, and users are to leave the other one."""
    ReleaseRecord(store, "digits", 1, "manual__1").append(VersionRejected(reason="old", by="bob"))
    run = RunDouble(emergency=True)
    finish(name_it(run), run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}


def test_a_live_version_that_was_rejected_is_left_like_any_other(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Its rejection stands in nobody's way off it, and stays the first one's."""
    left = ReleaseRecord(store, "digits", 2, "manual__1")
    left.append(VersionRejected(reason="wrong answers", by="bob"))
    run = RunDouble()
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    assert service.model is not None
    assert service.model.users() == {uri(store, 1): 100}
    assert [event.kind for event in left.events()].count("version_rejected") == 1


def test_what_a_person_rolls_back_is_rejected_under_that_name(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """With the reason that was given; one whose target a gate refused stays as it was."""
    run = RunDouble()
    release_run = name_it(run)
    validated(store, release_run)
    finish(release_run, run)
    rejection = ReleaseRecord(store, "digits", 2, RUN).state().rejection
    assert rejection is not None
    assert (rejection.by, rejection.reason, rejection.stage) == ("alice", "labels were swapped", "rollback")


def test_a_target_that_a_gate_refused_does_not_reject_what_stays_live(
    name_it: Callable[..., ReleaseRun], service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Staging writes its word into the record of the live version, about which it says nothing."""
    run = RunDouble()
    release_run = name_it(run)
    left = ReleaseRecord(store, "digits", 2, RUN)
    left.append(StageFinished(stage="validate", outcome="refused", reason="accuracy"))
    conclude = ConcludeReleaseOperator(
        task_id="conclude", wanted="rolled_back", release=release_run.model_dump_json()
    )
    with pytest.raises(AirflowFailException, match="refused"):
        conclude.execute(run.context)
    assert left.state().rejection is None
