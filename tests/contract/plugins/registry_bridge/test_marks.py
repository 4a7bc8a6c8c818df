"""What a real MLflow is told: `live` and `previous` follow the cluster and the record, tags tell each outcome."""

from __future__ import annotations

import pytest

from slipway_core.errors import ClusterUnavailableError, RegistryUnavailableError
from slipway_core.record.kinds import (
    EventData,
    Promoted,
    ReleaseFinished,
    ReleaseStarted,
    RollbackStarted,
    RolledBack,
    VersionRejected,
    VersionUnrejected,
)
from tests.support.registry.registry_steps import Bridge

FINISHED = ReleaseFinished(outcome="promoted")


def promoted(bridge: Bridge, version: int) -> list[EventData]:
    """The events of a release that ends well."""
    return [ReleaseStarted(), Promoted(storage_uri=bridge.uri(version)), FINISHED]


@pytest.fixture
def released(bridge: Bridge) -> Bridge:
    """Versions 1 and 2 were promoted; 2 is live."""
    for _ in range(2):
        number = bridge.register()
        bridge.sync()
        bridge.record(number, *promoted(bridge, number))
    bridge.serve(2, before=1)
    return bridge


def test_a_promotion_moves_the_aliases(released: Bridge) -> None:
    """Both, and the outcome and where to read of it; a second sync changes nothing."""
    assert "live" not in released.aliases()
    assert released.sync()["changes"] > 0
    assert released.aliases() == {"candidate": 2, "live": 2, "previous": 1}
    for version in (1, 2):
        tags = released.tags(version)
        assert tags["outcome"] == "promoted"
        assert tags["release"] == f"digits-{version}"
        assert tags["record"] == f"s3://{released.store.bucket}/records/digits/{version}/"
        assert tags["record_events"] == "3"
    assert released.sync()["changes"] == 0


def test_a_rollback_moves_them_back(released: Bridge) -> None:
    """Nobody is called previous where the InferenceService notes no other; a tag tells of the rejection."""
    released.sync()
    released.record(
        2,
        RollbackStarted(reason="wrong", by="a person", stable_storage_uri=released.uri(1)),
        RolledBack(stable_storage_uri=released.uri(1), candidate_requests=0, candidate_errors=0),
        VersionRejected(reason="wrong answers", by="bob"),
    )
    released.serve(1)
    released.sync()
    assert released.aliases() == {"candidate": 2, "live": 1}
    assert "wrong answers" in released.tags(2)["rejected"]
    released.record(2, VersionUnrejected(reason="it was the data", by="eve", rejection_seq=6))
    released.sync()
    assert "rejected" not in released.tags(2)


def test_a_version_that_is_not_promoted_is_not_called_live(released: Bridge) -> None:
    """The InferenceService serves it, and its record does not say that it may: a first deployment, or a hand's work."""
    released.sync()
    number = released.register()
    released.record(number, ReleaseStarted())
    released.serve(number, before=2)
    released.sync()
    assert released.aliases() == {"candidate": number, "previous": 2}
    assert released.tags(number)["outcome"] == "open"


def test_aliases_of_a_model_that_was_never_released_here_stay(bridge: Bridge) -> None:
    """What they say is somebody else's."""
    number = bridge.register()
    bridge.mlflow.promote(bridge.name, number, "live")
    bridge.sync()
    assert bridge.aliases() == {"candidate": number, "live": number}


def test_a_live_version_that_the_registry_does_not_have(released: Bridge) -> None:
    """No alias says something false."""
    released.sync()
    released.record(9, *promoted(released, 9))
    released.serve(9, before=2)
    released.sync()
    assert released.aliases() == {"candidate": 2, "previous": 2}


def test_a_cluster_that_cannot_be_read_moves_nothing(
    released: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "Could not read" is not "is absent"."""
    released.sync()

    def fails(_: object) -> None:
        raise ClusterUnavailableError("gone")

    monkeypatch.setattr("slipway.registry_bridge.sync.observe_service", fails)
    with pytest.raises(ClusterUnavailableError):
        released.sync()
    assert released.aliases() == {"candidate": 2, "live": 2, "previous": 1}


def test_a_record_that_cannot_be_read_moves_nothing(released: Bridge) -> None:
    """Its version stays what it was called; the other version is told of all the same."""
    released.sync()
    released.store.write("records/digits/2/000004-promoted.json", b"{")
    released.record(1, VersionRejected(reason="too old", by="bob"))
    released.sync()
    assert released.aliases() == {"candidate": 2, "live": 2, "previous": 1}
    assert released.tags(2)["record_events"] == "3"
    assert "too old" in released.tags(1)["rejected"]


def test_what_a_stopped_mlflow_missed_is_told_by_the_next_sync(released: Bridge) -> None:
    """The sync that could not tell it fails within its limit."""
    released.answer_limit_s = 1.0
    with released.mlflow.stopped(), pytest.raises(RegistryUnavailableError):
        released.sync()
    released.answer_limit_s = 20.0
    released.sync()
    assert released.aliases()["live"] == 2


def test_an_alias_that_a_person_moved_is_moved_back(released: Bridge) -> None:
    """It says what is so, not what somebody wishes."""
    released.sync()
    released.mlflow.promote(released.name, 1, "live")
    assert released.sync()["changes"] == 1
    assert released.aliases()["live"] == 2
