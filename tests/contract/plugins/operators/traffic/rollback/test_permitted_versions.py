"""Which versions a rollback by hand may lead users to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun

from include.model_release.record.kinds import (
    Approved,
    ReleaseFinished,
    ReleaseStarted,
    RolledBack,
    StageFinished,
)
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
from tests.unit.plugins.conftest import ServiceDouble

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
        AirflowFailException, match=r"nobody may be led to version 5 .* it was never promoted"
    ):
        name_it(RunDouble(version=5, emergency=emergency))
    assert len(service.patches) == patches


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
    with pytest.raises(AirflowFailException, match="version 2 of 'digits' is not older than version 1"):
        name_it(RunDouble(version=2))
    run = RunDouble(version=2, newer=True)
    release_run = name_it(run)
    validated(store, release_run)
    with pytest.raises(AirflowFailException, match="nobody has approved"):
        roll_back(release_run, run)
    _, digest = ModelRegistry(store).require_with_digest("digits", 2)
    record = ReleaseRecord(store, "digits", 1, RUN)
    for by, refusal in (("alice", "by another person than alice"), ("bob", None)):
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
