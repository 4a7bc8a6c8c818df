"""The preview: testers are led to the candidate, and no user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.hooks.ingress import Endpoint
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.approval import ApproveReleaseOperator
from slipway.operators.canary import ShiftTrafficOperator
from slipway.operators.preview import ShowCandidateOperator, curl_line
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import SlipwayError
from slipway_core.rollout.next_action import StartCanary
from tests.support.canary.doubles import ServiceDouble
from tests.support.canary.operators import Operate, first_step, record, show, stable_uri, stages, state


def test_a_release_without_a_preview_is_decided_on_as_it_was_armed(
    release_run: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """Nothing is changed, and the canary is bound to the InferenceService that the rollback was armed over."""
    armed_at = operate(ArmRollbackOperator)
    assert armed_at == service.model.generation  # type: ignore[union-attr]
    shown = show(release_run, armed_at)
    assert shown == {"candidate_url": "", "stable_url": "", "generation": armed_at}
    assert service.patches == []
    assert first_step(release_run, shown["generation"]).generation == armed_at


def test_a_preview_is_written_down_before_it_is_opened_and_told_when_it_is_up(
    previewing: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
) -> None:
    """Intent first; then no user is led there, and the record tells where to ask; run again it changes nothing."""
    armed_at = operate(ArmRollbackOperator)
    shown = show(previewing, armed_at)
    assert shown["candidate_url"] == "http://latest-digits-predictor.models.example.org"
    assert shown["stable_url"] == "http://prev-digits-predictor.models.example.org"
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]
    kinds = [event.kind for event in record(store).events()]
    assert kinds.index("weight_intended") < kinds.index("weight_observed")
    told = next(event for event in record(store).events() if event.kind == "weight_observed")
    assert told.data.candidate_url == shown["candidate_url"]
    assert stages(store) == [("preview", "passed")]
    patches = len(service.patches)
    assert show(previewing, armed_at) == shown
    assert len(service.patches) == patches


def test_the_first_step_goes_on_from_the_preview_and_from_no_other_state(
    previewing: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """The trigger carries the generation through being stored; its goal is refused once the preview is taken back."""
    shown = show(previewing, operate(ArmRollbackOperator))
    trigger = first_step(previewing, shown["generation"])
    goal = trigger._watch()._cluster._goal()
    assert isinstance(goal, StartCanary)
    assert goal.generation == shown["generation"]
    operate(RestoreStableOperator)
    for force in (False, True):
        with pytest.raises(SlipwayError):
            reconcile(service, replace(goal, force=force), timeout_s=60)  # type: ignore[arg-type]
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]


def test_a_preview_that_is_stopped_is_taken_back(
    previewing: ReleaseRun, service: ServiceDouble, store: ModelStoreHook, operate: Operate
) -> None:
    """The teardown leaves stable alone, without any percent in the spec; no user met it, so it is no rollback."""
    show(previewing, operate(ArmRollbackOperator))
    operate(RestoreStableOperator)
    found = state(store)
    assert (found.outcome, found.rollback_phase, found.standing) == ("open", "done", "")
    events = len(record(store).events())
    operate(RestoreStableOperator)
    assert len(record(store).events()) == events
    assert service.model.spec.get("canaryTrafficPercent") is None  # type: ignore[union-attr]
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]


def test_a_preview_that_a_dead_release_left_is_taken_back_first(
    previewing: ReleaseRun, service: ServiceDouble, operate: Operate
) -> None:
    """The next release finds a candidate at 0 % and begins over stable alone."""
    show(previewing, operate(ArmRollbackOperator))
    armed_at = operate(ArmRollbackOperator)
    assert service.model.users() == {stable_uri(previewing): 100}  # type: ignore[union-attr]
    assert service.model.spec["model"]["storageUri"] == stable_uri(previewing)  # type: ignore[union-attr]
    assert armed_at == service.model.generation  # type: ignore[union-attr]


def test_nobody_needs_a_preview_where_nothing_is_live(previewing: ReleaseRun, service: ServiceDouble) -> None:
    """A first version has no stable one that would go on serving meanwhile."""
    service.model = None
    first = previewing.model_copy(update={"stable": None})
    assert show(first, None) == {"candidate_url": "", "stable_url": "", "generation": None}


@pytest.mark.parametrize(
    ("endpoint", "line"),
    [
        (
            Endpoint("http://10.0.0.1:8080", "c.models"),
            "curl -H 'Host: c.models' http://10.0.0.1:8080/v2/models/digits",
        ),
        (Endpoint("http://c.models", "c.models"), "curl http://c.models/v2/models/digits"),
    ],
    ids=["by an ingress", "by its own name"],
)
def test_testers_are_given_a_command(endpoint: Endpoint, line: str) -> None:
    """It carries the host in a header where the host's name leads nowhere by itself."""
    assert curl_line(endpoint, "digits") == line


def test_the_address_of_the_candidate_is_rendered_into_the_approval(release_run: ReleaseRun) -> None:
    """A person who is asked is told where to try it; the field is a template."""
    assert "candidate_url" in ApproveReleaseOperator.template_fields
    assert "generation" in ShiftTrafficOperator.template_fields
    assert "generation" in ShowCandidateOperator.template_fields
