from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.golden_requests.grpc_body import grpc_body
from slipway.traffic.streams.generate_streams import generate_body
from slipway.traffic.streams.requests import stream_need, streamed_golden
from slipway_core.errors import StoreUnavailableError, UserError
from slipway_core.tensors import TensorSpec
from tests.support.canary.streamed_versions import DECOUPLED, PLAIN, VersionsDouble, with_streaming


def need(release_run: ReleaseRun, versions: VersionsDouble) -> tuple[str, str] | None:
    found = stream_need(release_run, cast(ModelRegistry, versions))
    return None if found is None else (found.protocol, found.why)


@pytest.mark.parametrize(
    ("configs", "by"),
    [
        ({"v3": {"digits": DECOUPLED}}, "version 3"),
        ({"v2": {"digits": DECOUPLED}}, "version 2"),
        ({"v3": {"digits": PLAIN, "writer": DECOUPLED}}, "version 3"),
        ({"v2": {"digits": PLAIN, "writer": DECOUPLED}}, "version 2"),
    ],
    ids=["the candidate", "stable", "a member of the candidate's ensemble", "a member of stable's"],
)
def test_a_decoupled_model_is_asked_over_streams(
    release_run: ReleaseRun, configs: dict[str, dict[str, str]], by: str
) -> None:
    """Whichever of the two versions is decoupled, or has a decoupled member, by gRPC unless something else is said."""
    versions = VersionsDouble(**configs)
    assert need(release_run, versions) == ("grpc", f"the configuration of {by} is decoupled")
    declared = with_streaming(release_run, protocol="generate_stream")
    found = need(declared, versions)
    assert found is not None
    assert found[0] == "generate_stream"


def test_a_model_of_single_responses_is_not_unless_the_release_file_says_so(release_run: ReleaseRun) -> None:
    """What config.pbtxt does not show, a call of a decoupled model from code, say, is declared."""
    assert need(release_run, VersionsDouble()) is None
    assert need(with_streaming(release_run, protocol="grpc"), VersionsDouble()) == (
        "grpc",
        "`rollout.streaming.protocol: grpc`",
    )


def test_answers_that_metrics_read_need_no_probes(release_run: ReleaseRun) -> None:
    """Somebody else reads them, as the release file says."""
    metrics = with_streaming(release_run, answers_read_by="metrics")
    assert need(metrics, VersionsDouble(v3={"digits": DECOUPLED})) is None


def test_a_store_that_is_away_says_nothing_of_streams(release_run: ReleaseRun) -> None:
    """It is not "no streams"."""
    versions = VersionsDouble()
    versions.away = True
    with pytest.raises(StoreUnavailableError):
        need(release_run, versions)


def test_a_stable_version_whose_files_are_gone_leaves_the_candidate_to_tell(release_run: ReleaseRun) -> None:
    """The candidate's own configuration decides."""
    versions = VersionsDouble(v3={"digits": DECOUPLED})
    del versions.versions[2]
    found = need(release_run, versions)
    assert found is not None
    versions.versions[3] = {"digits": PLAIN}
    assert need(release_run, versions) is None


def test_golden_rows_become_requests_with_a_flagged_end(release_run: ReleaseRun) -> None:
    """One row each, of no version, asking for a last response even where it is empty."""
    golden = streamed_golden(release_run, cast(ModelRegistry, VersionsDouble()), "grpc")
    requests = [service_pb2.ModelInferRequest.FromString(body) for body in golden.bodies]
    assert [(one.model_name, one.model_version) for one in requests] == [("digits", "")] * 3
    assert [np.frombuffer(one.raw_input_contents[0], np.float32).tolist() for one in requests] == [
        [0.0, 1.0],
        [2.0, 3.0],
        [4.0, 5.0],
    ]
    assert all(one.parameters["triton_enable_empty_final_response"].bool_param for one in requests)
    assert golden.outputs == ("y",)


@pytest.mark.parametrize(("rows", "limit", "found"), [(0, 1024, "without rows"), (2, 8, "bytes for one row")])
def test_a_golden_set_that_makes_no_request_is_refused(
    release_run: ReleaseRun, rows: int, limit: int, found: str
) -> None:
    """Nobody is asked nothing."""
    limited = with_streaming(release_run, max_request_bytes=limit)
    with pytest.raises(UserError, match="golden") as caught:
        streamed_golden(limited, cast(ModelRegistry, VersionsDouble(rows=rows)), "grpc")
    assert rows == 0 or found in str(caught.value)


TEXT = (TensorSpec(name="text", datatype="BYTES", shape=(-1, 1)),)


def test_generate_stream_takes_values_by_name() -> None:
    """A single value as itself, several as a list."""
    assert generate_body(TEXT, {"text": np.array([[b"a"]], object)}) == b'{"text": "a"}'
    several = (TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),)
    assert generate_body(several, {"x": np.array([[1.0, 2.0]], np.float32)}) == b'{"x": [1.0, 2.0]}'


@pytest.mark.parametrize(
    ("datatype", "array"),
    [("FP32", np.zeros((1, 2, 2), np.float32)), ("BYTES", np.array([[b"\xff"]], object))],
    ids=["a matrix", "bytes that are no text"],
)
def test_generate_stream_refuses_what_it_cannot_carry(datatype: str, array: np.ndarray) -> None:
    """The error names the input and the other protocol."""
    inputs = (TensorSpec(name="x", datatype=datatype, shape=(-1, 2)),)
    with pytest.raises(UserError, match="protocol: grpc"):
        generate_body(inputs, {"x": array})


def test_datatypes_go_as_triton_takes_them() -> None:
    """Texts with their length before them, BF16 as the upper half of a single."""
    values: dict[str, Any] = {"text": np.array([[b"ab"]], object)}
    text = service_pb2.ModelInferRequest.FromString(grpc_body("digits", TEXT, values))
    assert text.raw_input_contents[0] == b"\x02\x00\x00\x00ab"
    half = (TensorSpec(name="x", datatype="BF16", shape=(-1, 1)),)
    request = service_pb2.ModelInferRequest.FromString(
        grpc_body("digits", half, {"x": np.array([[1.0]], np.float32)})
    )
    assert request.raw_input_contents[0] == b"\x80\x3f"
