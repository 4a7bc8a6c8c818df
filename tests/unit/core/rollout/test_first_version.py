"""The first version of a model: created, then waited for; with nothing to go back to it can only be withdrawn."""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.next_action import (
    Create,
    Delete,
    Done,
    FirstDeploy,
    Impossible,
    RollBack,
    Wait,
    Withdraw,
    next_action,
)
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.lab.simulation.edits import V1, V2
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model

# --- first version ---


def _manifest() -> dict[str, Any]:
    spec = parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml")
    return inference_service_manifest(spec, V1, release_id="digits-1", version=1)


def test_a_first_version_is_created_and_takes_all_traffic() -> None:
    """Without an InferenceService it is created, then waited for, then done."""
    goal = FirstDeploy(_manifest())
    created = next_action(goal, None)
    assert isinstance(created, Create)
    model = KnativeModel()
    model.create(dict(created.body))
    assert isinstance(next_action(goal, model.read()), Wait)
    model.settle()
    assert isinstance(next_action(goal, model.read()), Done)


def test_the_manifest_names_triton_and_knative() -> None:
    """The manifest asks for Triton over the whole repository, in the mode in which percents have an effect."""
    manifest = _manifest()
    predictor = manifest["spec"]["predictor"]
    assert manifest["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Knative"
    assert predictor["model"]["storageUri"] == V1
    assert predictor["model"]["runtime"] == "kserve-tritonserver"
    assert predictor["serviceAccountName"] == "slipway-models"
    assert "canaryTrafficPercent" not in predictor


def test_the_predictor_is_placed_as_the_file_says() -> None:
    """Nodes, taints, replicas and Secrets stand where KServe takes a pod's fields, and nothing else is added."""
    text = (
        "model: digits\nsource: {format: onnx}\nrollout:\n  node_selector: {gpu: l4}\n"
        "  tolerations: [{key: gpu, operator: Exists}]\n  image_pull_secrets: [registry]\n"
        "  min_replicas: 2\n  max_replicas: 6\n"
    )
    predictor = inference_service_manifest(parse_release_spec(text, "digits.yaml"), V1)["spec"]["predictor"]
    assert predictor["nodeSelector"] == {"gpu": "l4"}
    assert predictor["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert predictor["imagePullSecrets"] == [{"name": "registry"}]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (2, 6)
    plain = _manifest()["spec"]["predictor"]
    assert set(plain) == {"serviceAccountName", "minReplicas", "model"}


def test_a_model_that_is_asked_by_grpc_has_one_port_for_it() -> None:
    """Knative leads to one port, and knows by its name that HTTP/2 is spoken there; KServe knows the protocol."""
    text = "model: digits\nsource: {format: onnx}\nrollout: {protocol: grpc}\n"
    model = inference_service_manifest(parse_release_spec(text, "digits.yaml"), V1)["spec"]["predictor"][
        "model"
    ]
    assert model["protocolVersion"] == "grpc-v2"
    assert model["ports"] == [{"name": "h2c", "containerPort": 9000, "protocol": "TCP"}]
    plain = _manifest()["spec"]["predictor"]["model"]
    assert (plain["protocolVersion"], "ports" in plain) == ("v2", False)


def test_a_first_version_cannot_be_rolled_back_but_withdrawn() -> None:
    """With nothing to go back to a rollback is impossible, and a withdrawal deletes exactly what was seen."""
    model = KnativeModel(unloadable=frozenset({V1}))
    model.create(_manifest())
    model.settle()
    assert isinstance(next_action(RollBack(""), model.read()), Impossible)
    assert isinstance(next_action(RollBack("s3://b/v0"), model.read()), Impossible)
    action = next_action(Withdraw(V1), model.read())
    assert isinstance(action, Delete)
    assert (action.uid, action.resource_version) == ("u", str(model.resource_version))
    assert isinstance(next_action(Withdraw(V1), None), Done)


def test_a_service_that_served_before_is_never_withdrawn() -> None:
    """Deleting would take the good version away too."""
    assert isinstance(next_action(Withdraw(V2), live_model().read()), Impossible)


def test_a_missing_service_is_told() -> None:
    """A rollback of what does not exist says so instead of creating something."""
    action = next_action(RollBack(V2), None)
    assert isinstance(action, Impossible)
    assert action.kind == "absent"
