from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec


def spec(text: str) -> ReleaseSpec:
    return parse_release_spec(f"model: digits\nsource: {{}}\n{text}", "digits.yaml")


def test_nothing_said_is_as_the_configuration_says() -> None:
    """A decoupled model is asked by gRPC, one of single responses is not asked over streams."""
    streaming = spec("").rollout.streaming
    assert streaming.protocol_of(is_decoupled=True) == "grpc"
    assert streaming.protocol_of(is_decoupled=False) is None


@pytest.mark.parametrize("protocol", ["grpc", "generate_stream"])
def test_what_is_declared_holds(protocol: str) -> None:
    """Also of a model whose configuration shows nothing of streams."""
    streaming = spec(f"rollout: {{streaming: {{protocol: {protocol}}}}}").rollout.streaming
    assert [streaming.protocol_of(is_decoupled=one) for one in (True, False)] == [protocol, protocol]


PROMETHEUS = "metrics: {source: prometheus, queries: knative}"
READ = (
    'metrics: {source: prometheus, overrides: {requests: "a{r=\\"{revision}\\"}", '
    'errors: "b{r=\\"{revision}\\"}"}}'
)


@pytest.mark.parametrize(
    ("rollout", "told"),
    [
        ("streaming: {protocol: http}", "generate_stream"),
        ("streaming: {protocol: grpc}, deployment_mode: Standard", "Standard mode"),
        (f"streaming: {{protocol: grpc}}, {PROMETHEUS}", "metrics_see_users_only"),
        ("streaming: {answers_read_by: metrics}", "no query that reads answers"),
        (f"streaming: {{answers_read_by: metrics}}, {PROMETHEUS}", "no query that reads answers"),
        ("streaming: {requests_per_s: 0}", "greater than 0"),
        ("streaming: {timeout_s: 1000}", "300"),
    ],
)
def test_a_release_file_by_which_nobody_reads_answers_is_refused(rollout: str, told: str) -> None:
    """Before anything runs, with what to write instead."""
    with pytest.raises(SpecError) as caught:
        spec(f"rollout: {{{rollout}}}")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "rollout",
    [
        f"streaming: {{protocol: grpc}}, {PROMETHEUS}, golden_replay: {{metrics_see_users_only: true}}",
        f"streaming: {{protocol: grpc, answers_read_by: metrics}}, deployment_mode: Standard, {READ}",
    ],
    ids=["queries of users alone", "a router that reads answers"],
)
def test_what_has_a_reader_is_taken(rollout: str) -> None:
    """Probes beside queries that leave them out; queries that read answers, in either mode."""
    assert spec(f"rollout: {{{rollout}}}").rollout.streaming.protocol == "grpc"


def test_decoupled_serving_is_known_from_the_release_file() -> None:
    """`serving.decoupled: true` in Standard mode is refused without a look at any configuration."""
    with pytest.raises(SpecError, match=r"serving\.decoupled: true"):
        spec("serving: {decoupled: true}\nrollout: {deployment_mode: Standard}")
    assert spec("serving: {decoupled: true}").serving.decoupled
