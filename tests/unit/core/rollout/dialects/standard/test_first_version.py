"""KServe's Standard mode: the first version of a model."""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.next_action import (
    Create,
    Delete,
    Done,
    FirstDeploy,
    Impossible,
    Promote,
    RollBack,
    Wait,
    Withdraw,
    next_action,
)
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.lab.simulation.edits import V1, V3
from slipway_sandbox.lab.simulation.standard_model import StandardModel
from tests.support.rollout.standard_steps import canary_at, drive

# --- first version ---


def manifest() -> dict[str, Any]:
    text = "model: digits\nsource: {format: onnx}\nrollout: {deployment_mode: Standard}\n"
    spec = parse_release_spec(text, "digits.yaml")
    return inference_service_manifest(spec, V1, release_id="digits-1", version=1)


def test_a_first_version_is_created_and_takes_all_traffic() -> None:
    """Without an InferenceService it is created, then waited for until its route leads to it, then done."""
    goal = FirstDeploy(manifest())
    created = next_action(goal, None)
    assert isinstance(created, Create)
    model = StandardModel()
    model.create(dict(created.body))
    assert isinstance(next_action(goal, model.read()), Wait)
    model.settle()
    assert isinstance(next_action(goal, model.read()), Done)
    assert model.read().annotation("slipway.dev/version") == "1"


def test_a_first_version_without_gateway_api_waits_and_says_why() -> None:
    """It is up, and no HTTPRoute comes: the wait names what is missing."""
    model = StandardModel(gateway_api=False)
    model.create(manifest())
    model.settle()
    action = next_action(FirstDeploy(manifest()), model.read())
    assert isinstance(action, Wait)
    assert "enableGatewayApi" in action.reason


def test_the_manifest_names_the_mode_and_notes_on_the_predictor() -> None:
    """In Standard mode the notes lie where they change with the predictor, not on the object."""
    made = manifest()
    assert made["metadata"]["annotations"] == {"serving.kserve.io/deploymentMode": "Standard"}
    assert made["spec"]["predictor"]["annotations"]["slipway.dev/release"] == "digits-1"


def test_a_first_version_cannot_be_rolled_back_but_withdrawn() -> None:
    """With nothing to go back to a rollback is impossible, and a withdrawal deletes exactly what was seen."""
    model = StandardModel(unloadable=frozenset({V1}))
    model.create(manifest())
    model.settle()
    assert isinstance(next_action(RollBack("s3://b/v0"), model.read()), Impossible)
    action = next_action(Withdraw(V1), model.read())
    assert isinstance(action, Delete)
    assert (action.uid, action.resource_version) == ("u", str(model.resource_version))


def test_a_service_that_served_before_is_never_withdrawn() -> None:
    """Deleting would take the good version away too, during a canary as after its promotion."""
    model = canary_at(20)
    assert isinstance(next_action(Withdraw(), model.read()), Impossible)
    drive(model, Promote())
    assert isinstance(next_action(Withdraw(V3), model.read()), Impossible)
