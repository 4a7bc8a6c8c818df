"""An XCom of the task that admits, written by somebody else: what was not admitted raises and decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.approval import ApproveReleaseOperator
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.preview import ShowCandidateOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.staging import PrepareStagingOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.release_run import ReleaseRun
from slipway.traffic.raise_permit import RaisePermit
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.errors import HandedOtherwiseError
from slipway_core.record.kinds import ReleaseFinished, ReleaseStarted
from slipway_core.record.requirements import requirements_of
from tests.support.canary.doubles import ServiceDouble
from tests.support.canary.operators import record
from tests.support.release.proofs import gates_passed, steps_passed

Forge = Callable[[dict[str, Any]], None]


def thresholds(handed: dict[str, Any]) -> None:
    """80 % of errors pass."""
    handed["spec"]["rollout"] = {"analysis": {"error_margin_percent": 80}}


def shorter(handed: dict[str, Any]) -> None:
    """One short step is all."""
    handed["spec"]["rollout"] = {"steps": [{"weight": 5, "bake_s": 10}]}


def accuracy(handed: dict[str, Any]) -> None:
    """No accuracy is asked for."""
    handed["spec"]["validation"] = {"accuracy_min": 0.0}


def namespace(handed: dict[str, Any]) -> None:
    """Another team's namespace."""
    handed["spec"]["rollout"] = {"namespace": "others"}


def service_name(handed: dict[str, Any]) -> None:
    """Another InferenceService."""
    handed["spec"]["rollout"] = {"inference_service": "fraud"}


def stable_uri(handed: dict[str, Any]) -> None:
    """A stable version's number, and the place of another one."""
    handed["stable"]["storage_uri"] = handed["stable"]["storage_uri"].replace("/2/", "/1/")


def stable_version(handed: dict[str, Any]) -> None:
    """The place of a stable version, and the number of another one."""
    handed["stable"]["version"] = 1


def stable_other(handed: dict[str, Any]) -> None:
    """Another stable version, told alike by number and place."""
    stable_uri(handed)
    stable_version(handed)


def no_stable(handed: dict[str, Any]) -> None:
    """As if nothing were live: all users at once."""
    handed["stable"] = None


def forced(handed: dict[str, Any]) -> None:
    """As if somebody had asked to release it again."""
    handed["force"] = True


FORGERIES = [
    thresholds,
    shorter,
    accuracy,
    namespace,
    service_name,
    stable_uri,
    stable_version,
    stable_other,
    no_stable,
    forced,
]


@pytest.fixture
def pinned(release_run: ReleaseRun, store: ModelStoreHook) -> ReleaseRun:
    """The release, admitted anew with what admission pins, and proved up to its last step."""
    record(store).append(ReleaseFinished(outcome="failed", refused_by=None, reason="begun anew"))
    record(store).append(
        ReleaseStarted(
            stable_storage_uri=None if release_run.stable is None else release_run.stable.storage_uri,
            required=requirements_of(release_run.spec, first=False),
            triggered_by="alice",
            admitted=release_run.admitted,
        )
    )
    gates_passed(store, release_run)
    return release_run


def forged(release_run: ReleaseRun, forge: Forge) -> str:
    """What the XCom holds now."""
    handed = json.loads(release_run.model_dump_json())
    forge(handed)
    return json.dumps(handed)


def test_what_was_admitted_goes_on(pinned: ReleaseRun, service: ServiceDouble, store: ModelStoreHook) -> None:
    """The release itself, as it comes out of JSON, is taken for what it is."""
    RaisePermit(store, ReleaseRun.parse(forged(pinned, lambda _: None)), None).require(5)  # type: ignore[arg-type]
    with pytest.raises(TaskDeferred):
        ShiftTrafficOperator(task_id="task", release=forged(pinned, lambda _: None)).execute({})


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda one: one.__name__)
def test_nothing_is_raised_for_what_was_not_admitted(
    forge: Forge, pinned: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Preview, steps and promotion refuse it, before anything is written or changed; the error names both."""
    steps_passed(store, pinned)
    release = forged(pinned, forge)
    judge = CanaryJudge(AnalysisPolicy()).to_json()
    events = len(record(store).events())
    for operator in (
        ShowCandidateOperator(task_id="show", release=release),
        ShiftTrafficOperator(task_id="shift", release=release),
        PromoteOperator(task_id="promote", release=release, judge=json.dumps(judge)),
    ):
        with pytest.raises(
            AirflowFailException, match=r"another release than was admitted.*Expected .*found "
        ):
            operator.execute({})
    with pytest.raises(HandedOtherwiseError, match="another release than was admitted"):
        RaisePermit(store, ReleaseRun.parse(release), None).require(100)  # type: ignore[arg-type]
    assert service.patches == []
    assert len(record(store).events()) == events


@pytest.mark.parametrize("forge", [thresholds, accuracy, stable_other], ids=lambda one: one.__name__)
def test_nothing_is_decided_for_what_was_not_admitted(
    forge: Forge, pinned: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """No gate begins, nobody is asked, and a canary under way takes no step with other thresholds."""
    release, events = forged(pinned, forge), len(record(store).events())
    for operator in (
        PrepareStagingOperator(task_id="prepare", release=release),
        ValidateModelOperator(task_id="validate", release=release, staging="{}"),
        ApproveReleaseOperator(task_id="approve", release=release, before="canary"),
    ):
        with pytest.raises(AirflowFailException, match="another release than was admitted"):
            operator.execute({})
    watched = {"decision": "advance", "judge": CanaryJudge(AnalysisPolicy()).to_json(), "elapsed_s": 9.0}
    told: dict[str, Any] = {**watched, "events": [], "error": None}
    with pytest.raises(AirflowFailException, match="another release than was admitted"):
        ShiftTrafficOperator(task_id="task", release=release).resume({}, told, 0)
    # The last two were under way, and say that they failed.
    assert [event.kind for event in record(store).events()[events:]] == ["stage_finished"]


def test_another_bucket_is_refused_before_it_is_read(pinned: ReleaseRun) -> None:
    """The bucket is the deployment's, whatever the XCom says: a forged record elsewhere permits nothing."""

    def bucket(handed: dict[str, Any]) -> None:
        handed |= {"bucket": "elsewhere", "configured_bucket": pinned.bucket}

    with pytest.raises(
        AirflowFailException, match=rf"the bucket differs.*Expected {pinned.bucket}; found elsewhere"
    ):
        ShiftTrafficOperator(task_id="task", release=forged(pinned, bucket)).execute({})


def test_the_run_of_another_release_permits_nothing(
    pinned: ReleaseRun, service: ServiceDouble, store: ModelStoreHook
) -> None:
    """Neither another version of the model nor another run id is what the record of this attempt is about."""
    for changes in ({"version": 2}, {"release_id": "digits-2"}):
        release = forged(pinned, lambda handed, changes=changes: handed.update(changes))  # type: ignore[misc]
        with pytest.raises(AirflowFailException):
            ShiftTrafficOperator(task_id="task", release=release).execute({})
    assert service.patches == []
