"""LeaseHook against the Kubernetes API, emulated or real: taken, renewed, ended and given back, also by two at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slipway.hooks import lease as lease_module
from slipway.hooks.lease import ATTEMPTS, LeaseHook
from slipway_core.errors import (
    ClusterUnavailableError,
    InputMissingError,
    LeaseTakenOverError,
    ReleaseInProgressError,
    SpecError,
)
from slipway_core.rollout.holder_identity import HolderIdentity
from slipway_core.rollout.lease import Lease
from slipway_sandbox.cluster.kubeconfig import write_kubeconfig
from tests.support.cluster.any_cluster import NamedCluster, any_cluster
from tests.support.cluster.emulator import Emulator

RELEASE, OTHER = HolderIdentity("digits-3", "canary", 1), HolderIdentity("digits-4", "canary", 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator | NamedCluster]:
    """A cluster that the tests of this file share."""
    with any_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def connection(kubeconfig: Path) -> str:
    """An Airflow connection, as JSON, to the cluster of a kubeconfig."""
    return json.dumps({"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}})


@pytest.fixture
def hook(
    cluster: Emulator | NamedCluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> LeaseHook:
    """The lease of an InferenceService that is this test's own."""
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection(cluster.kubeconfig))
    return LeaseHook(request.node.name.replace("_", "-")[:50].rstrip("-"), "models")


def test_a_lease_is_taken_renewed_and_given_back(hook: LeaseHook) -> None:
    """One release's way through: no lease before, one that is its own in between, none after."""
    assert hook.get() is None
    taken = hook.acquire(RELEASE, lease_s=30, candidate_uri="s3://3", stable_uri="s3://2")
    assert taken.is_held_by(str(RELEASE))
    assert (taken.lease_s, taken.candidate_uri, taken.stable_uri) == (30, "s3://3", "s3://2")
    kept = hook.keep(RELEASE)
    assert kept is not None
    assert taken.renewed_at is not None
    assert kept.renewed_at is not None
    assert kept.renewed_at > taken.renewed_at
    assert kept.acquired_at == taken.acquired_at
    assert hook.release(RELEASE.release_id) == kept
    assert hook.get() is None
    assert hook.release(RELEASE.release_id) is None


def test_the_lease_is_dated_in_utc_by_the_holder(hook: LeaseHook) -> None:
    """renewTime is the time at which the release renewed."""
    renewed_at = hook.acquire(RELEASE).renewed_at
    assert renewed_at is not None
    assert abs((datetime.now(UTC) - renewed_at).total_seconds()) < 10


def test_a_task_that_is_run_again_finds_its_lease(hook: LeaseHook) -> None:
    """Taking a lease that is the release's own already renews it, and does not make another."""
    first = hook.acquire(RELEASE)
    again = hook.acquire(RELEASE)
    assert again.uid == first.uid
    assert again.resource_version != first.resource_version


def test_another_releases_lease_is_not_taken(hook: LeaseHook) -> None:
    """A release that finds another's lease is refused, is told whose it is, and neither renews nor deletes it."""
    hook.acquire(OTHER)
    before = hook.get()
    with pytest.raises(ReleaseInProgressError, match=f"held by {OTHER}"):
        hook.acquire(RELEASE)
    assert hook.keep(RELEASE) is None
    assert hook.release(RELEASE.release_id) is None
    assert hook.get() == before


def test_an_ended_lease_is_shown_and_not_renewed(hook: LeaseHook) -> None:
    """A release whose canary was ended meanwhile sees by whom and why, however it asks."""
    taken = hook.acquire(RELEASE)
    ended = hook.end(taken, by="guard", reason="nobody renewed it")
    assert ended is not None
    for found in (hook.keep(RELEASE), hook.acquire(RELEASE), hook.get()):
        assert found == ended
        assert not found.is_held_by(str(RELEASE))
        assert (found.ended_by, found.ended_reason) == ("guard", "nobody renewed it")
    released = hook.release(RELEASE.release_id)
    assert released is not None
    assert released.is_ended


def test_whoever_writes_first_wins(hook: LeaseHook) -> None:
    """Of a renewal and an end that were decided on the same reading, the second one has no effect."""
    seen = hook.acquire(RELEASE)
    renewed = hook.renew(seen)
    assert renewed is not None
    assert hook.end(seen, by="guard", reason="nobody renewed it") is None
    ended = hook.end(renewed, by="guard", reason="nobody renewed it")
    assert ended is not None
    assert hook.renew(renewed) is None
    assert hook.get() == ended


def test_a_lease_that_is_gone_cannot_be_renewed(hook: LeaseHook) -> None:
    """Somebody deleted it: there is nothing to keep, and that is no error of the API."""
    seen = hook.acquire(RELEASE)
    hook.release(RELEASE.release_id)
    assert hook.renew(seen) is None
    assert hook.keep(RELEASE) is None


def test_an_api_that_is_away_is_not_an_absent_lease(
    hook: LeaseHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an answer nothing is known about the lease: a transient error, whatever was asked."""
    seen = hook.acquire(RELEASE)
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9", "nobody")
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection(tmp_path / "kubeconfig"))
    cut_off = LeaseHook(hook.inference_service, hook.namespace)
    asks = (cut_off.get, lambda: cut_off.keep(RELEASE), lambda: cut_off.renew(seen))
    for ask in (*asks, lambda: cut_off.acquire(RELEASE), lambda: cut_off.release(RELEASE.release_id)):
        with pytest.raises(ClusterUnavailableError, match=f"Lease models/slipway-{hook.inference_service}"):
            ask()


def test_a_name_that_no_lease_can_have_is_the_persons_to_mend(hook: LeaseHook) -> None:
    """What the API finds invalid is not tried again."""
    with pytest.raises(SpecError, match="the API server finds it invalid"):
        LeaseHook("Not_A_Name", "models").acquire(RELEASE)


def test_a_canary_is_paused_and_goes_on(hook: LeaseHook) -> None:
    """The reason stands on the lease, survives renewals, and is gone when the canary may go on."""
    hook.acquire(RELEASE)
    assert hook.pause("a person looks").paused == "a person looks"
    kept = hook.keep(RELEASE)
    assert kept is not None
    assert kept.paused == "a person looks"
    assert hook.pause(None).paused == ""


def test_without_a_canary_nothing_can_be_paused(hook: LeaseHook) -> None:
    """The error says that none is under way."""
    with pytest.raises(InputMissingError, match="no canary is under way"):
        hook.pause("a person looks")


def test_a_later_try_takes_over_and_the_earlier_one_is_told(hook: LeaseHook) -> None:
    """A task whose worker was taken for dead and lives on neither renews nor raises beside its next try."""
    hook.acquire(RELEASE, lease_s=30)
    second = HolderIdentity(RELEASE.release_id, "canary", 2)
    taken = hook.acquire(second, lease_s=30)
    assert taken.is_held_by(str(second))
    for late in (hook.keep, hook.acquire):
        with pytest.raises(LeaseTakenOverError, match="canary try 2"):
            late(RELEASE)
    found = hook.get()
    assert found is not None
    assert found.is_held_by(str(second))
    promotion = hook.keep(HolderIdentity(RELEASE.release_id, "promotion", 1))
    assert promotion is not None
    with pytest.raises(LeaseTakenOverError):
        hook.keep(second)
    assert hook.release(RELEASE.release_id) is not None


@pytest.mark.parametrize("act", ["acquire", "keep", "pause", "release"])
def test_a_lease_that_others_change_all_the_while_is_given_up(
    hook: LeaseHook, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """After a few attempts, with pauses that grow, the error says what happened; nobody asks for ever."""
    hook.acquire(RELEASE)
    other = LeaseHook(hook.inference_service, hook.namespace)
    pauses: list[float] = []
    monkeypatch.setattr(lease_module.time, "sleep", pauses.append)
    read = LeaseHook.get

    def overtaken(self: LeaseHook) -> Lease | None:
        found = read(self)
        seen = read(other)
        assert seen is not None
        assert other.renew(seen) is not None
        return found

    monkeypatch.setattr(hook, "get", lambda: overtaken(hook))
    acts: dict[str, Callable[[], object]] = {
        "acquire": lambda: hook.acquire(RELEASE),
        "keep": lambda: hook.keep(RELEASE),
        "pause": lambda: hook.pause("a person looks"),
        "release": lambda: hook.release(RELEASE.release_id),
    }
    began_s = time.monotonic()
    with pytest.raises(ClusterUnavailableError, match=f"during each of {ATTEMPTS} attempts"):
        acts[act]()
    assert len(pauses) == ATTEMPTS
    assert pauses[-1] > pauses[0]
    assert time.monotonic() - began_s < 30
