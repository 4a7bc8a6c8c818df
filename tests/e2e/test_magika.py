"""A model that this project did not make, from the wheel to answers through the router."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.support.e2e import magika_release
from tests.support.e2e.endings import assert_ended
from tests.support.e2e.running_sandbox import NAMESPACE, RunningSandbox
from tests.support.e2e.stories import MagikaStory

pytestmark = pytest.mark.nightly

TOLERANCE = 1e-5


def test_rejected_release_meets_no_user(magika: MagikaStory) -> None:
    """A person who says no refuses the release: nothing is deployed, and the record says where it ended."""
    assert_ended(magika.rejected, "refused", run="failed", refused_by="approve")
    assert magika.service_after_rejection is None


def test_rejected_version_is_not_released_again_until_that_is_lifted(magika: MagikaStory) -> None:
    """Not even by force: the run fails, nothing is written but that the rejection is lifted later, with who did it."""
    assert magika.again.run.state == "failed"
    assert magika.again.events == magika.rejected.events
    assert magika.lifted.state == "success"
    assert magika.first.state.rejection is None


def test_who_started_and_who_approved_is_in_the_record(magika: MagikaStory, sandbox: RunningSandbox) -> None:
    """By the names that they log in with; the approval is of the version that was verified."""
    state = magika.first.state
    assert state.triggered_by == sandbox.settings.airflow_user
    assert [(one.before, one.by) for one in state.approvals] == [("canary", sandbox.settings.airflow_user)]
    assert state.approvals[0].manifest_sha256 == state.promoted_sha256 != ""


def test_approved_release_goes_live(magika: MagikaStory) -> None:
    """The model passes every gate on real files and, once a person agrees, gets all traffic.

    It was published by the release that was rejected, and is neither converted nor chosen anew.
    """
    assert_ended(magika.first, "promoted")
    assert magika.first.stage("approve") == "passed"
    assert magika.first.stage("convert") == "reused"
    assert {stage.outcome for stage in magika.first.state.stages} == {"passed", "reused"}
    assert magika.service is not None
    assert magika.service.alone(magika.service.latest_ready)


def test_answers_through_the_router_are_the_models_own(magika: MagikaStory, sandbox: RunningSandbox) -> None:
    """Asked about the same files over HTTP and gRPC, the service answers as the wheel's own file does."""
    with np.load(io.BytesIO(magika_release.golden_set())) as golden:
        questions = golden["bytes"][:8]
    expected = local_answers(magika_release.model_folder() / "model.onnx", questions)
    host = sandbox.settings.service_host("magika", NAMESPACE)
    address = f"127.0.0.1:{sandbox.settings.ports.ingress}"
    np.testing.assert_allclose(http_answers(address, host, questions), expected, atol=TOLERANCE)
    np.testing.assert_allclose(grpc_answers(address, host, questions), expected, atol=TOLERANCE)


def local_answers(model: Path, questions: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """Return the scores that onnxruntime gives here."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["target_label"], {"bytes": questions})
    return np.asarray(scores, dtype=np.float32)


def http_answers(address: str, host: str, questions: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """Return the scores of the service over HTTP."""
    with tritonclient.http.InferenceServerClient(address) as client:
        tensor = tritonclient.http.InferInput("bytes", questions.shape, "INT32")
        tensor.set_data_from_numpy(questions)
        return np.asarray(
            client.infer("magika", [tensor], headers={"Host": host}).as_numpy("target_label"), np.float32
        )


def grpc_answers(address: str, host: str, questions: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """Return the scores of the service over gRPC."""
    options = [("grpc.default_authority", host)]
    with tritonclient.grpc.InferenceServerClient(address, channel_args=options) as client:
        tensor = tritonclient.grpc.InferInput("bytes", questions.shape, "INT32")
        tensor.set_data_from_numpy(questions)
        return np.asarray(client.infer("magika", [tensor]).as_numpy("target_label"), np.float32)
