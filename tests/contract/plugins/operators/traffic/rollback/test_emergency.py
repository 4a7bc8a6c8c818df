"""A person takes users off a canary: the namespace and the name of the InferenceService are all that it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_run import ReleaseRun
from slipway.traffic import canary_end
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.holder_identity import HolderIdentity
from slipway_core.rollout.next_action import StartCanary
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.release.rollback_by_hand import RunDouble, finish, uri

Name = Callable[..., ReleaseRun]
WRONG = {
    "a typo": "model: digits\nsource: {format: onnx}\nrollout: {stepps: [], namespace: models}\n",
    "no YAML": "model: [digits\n",
    "no text": "\0",
    "another model's": "model: other\nsource: {format: onnx}\n",
}


@pytest.fixture
def canary(service: ServiceDouble, store: ModelStoreHook, lease: LeaseDouble) -> ServiceDouble:
    """Half of the users are on version 3, over version 2."""
    lease.acquire(HolderIdentity("digits-3", "canary", 1), lease_s=60, candidate_uri="", stable_uri="")
    reconcile(service, StartCanary(uri(store, 3), 50, release_id="digits-3", version=3), timeout_s=60)  # type: ignore[arg-type]
    return service


def users(service: ServiceDouble) -> dict[str, int]:
    assert service.model is not None
    return dict(service.model.users())


@pytest.mark.parametrize("emergency", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_release_file_keeps_nobody_on_the_candidate(
    wrong: str, emergency: bool, name_it: Name, canary: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """The users are back on the version before, and then the task says what is wrong with the file."""
    (tmp_path / "digits.yaml").write_text(WRONG[wrong])
    with pytest.raises(AirflowFailException, match=r"the canary was ended.*the release file"):
        name_it(RunDouble(emergency=emergency))
    assert users(canary) == {uri(store, 2): 100}


def test_a_release_file_that_is_gone_keeps_nobody_on_the_candidate(
    name_it: Name, canary: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """The namespace and the name that the run says will do."""
    (tmp_path / "digits.yaml").unlink()
    with pytest.raises(AirflowFailException, match="the canary was ended"):
        name_it(RunDouble(namespace="models", inference_service="digits"))
    assert users(canary) == {uri(store, 2): 100}


def conflict(lease: LeaseDouble, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    calls: list[float] = []

    def end(*_: Any, **__: Any) -> None:
        calls.append(time.monotonic())

    monkeypatch.setattr(lease, "end", end)
    return calls


def away(lease: LeaseDouble, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    def get() -> None:
        raise ClusterUnavailableError("the API does not answer for leases")

    monkeypatch.setattr(lease, "get", get)
    return []


def hanging(lease: LeaseDouble, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(canary_end, "LEASE_FIRST_S", 0.2)
    monkeypatch.setattr(lease, "get", lambda: time.sleep(5))
    return []


def broken(lease: LeaseDouble, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(lease, "get", lambda: 1 / 0)
    return []


@pytest.mark.parametrize("harm", [conflict, away, hanging, broken])
def test_no_lease_keeps_anybody_on_the_candidate(
    harm: Callable[..., list[float]],
    name_it: Name,
    canary: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is always in conflict, cannot be read or hangs is given up after some tries with pauses, and told."""
    calls = harm(lease, monkeypatch)
    began = time.monotonic()
    with pytest.raises(AirflowFailException, match=r"the canary was ended.*lease"):
        name_it(RunDouble())
    assert users(canary) == {uri(store, 2): 100}
    assert time.monotonic() - began < 60
    assert len(calls) <= 2 * canary_end.ATTEMPTS
    assert harm is not conflict or calls[1] - calls[0] >= canary_end.FIRST_PAUSE_S


def test_a_lease_that_is_back_later_is_ended_then(
    name_it: Name,
    canary: ServiceDouble,
    store: ModelStoreHook,
    lease: LeaseDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is lacking in the end, so the run is as any other."""
    get, asked = lease.get, 0

    def late() -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ClusterUnavailableError("the API does not answer for leases")
        return get()

    monkeypatch.setattr(lease, "get", late)
    with pytest.raises(AirflowSkipException, match="the canary was ended"):
        name_it(RunDouble())
    assert users(canary) == {uri(store, 2): 100}
    assert lease.lease is not None
    assert lease.lease.ended_by == "a person"


def test_a_guessed_service_of_another_model_is_left_alone(
    name_it: Name, canary: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """Who names the service by hand, or by a default, changes nothing where it serves something else."""
    patches = len(canary.patches)
    (tmp_path / "other.yaml").write_text("model: [")
    run = RunDouble(model="other", emergency=True, namespace="models", inference_service="digits")
    with pytest.raises(AirflowFailException, match="not known to be the InferenceService of"):
        name_it(run)
    assert len(canary.patches) == patches


def test_an_emergency_goes_back_without_a_right_release_file(
    name_it: Name, service: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """A version that was promoted is left for the one before, which the InferenceService notes."""
    (tmp_path / "digits.yaml").write_text(WRONG["a typo"])
    run = RunDouble(emergency=True)
    finish(name_it(run), run)
    assert users(service) == {uri(store, 1): 100}


def test_without_an_emergency_a_promoted_version_needs_its_release_file(
    name_it: Name, service: ServiceDouble, store: ModelStoreHook, tmp_path: Path
) -> None:
    """The way back that is tried on staging first is the release file's; the error names the line."""
    (tmp_path / "digits.yaml").write_text(WRONG["a typo"])
    with pytest.raises(AirflowFailException, match="stepps"):
        name_it(RunDouble())
    assert users(service) == {uri(store, 2): 100}
