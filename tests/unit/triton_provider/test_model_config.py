"""Whether a server uses the configuration that it was asked to use."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_triton.client.model_config import config_sha256, departures

WANTED: dict[str, Any] = {
    "name": "m",
    "platform": "onnxruntime_onnx",
    "max_batch_size": 16,
    "version_policy": {"specific": {"versions": [2, 3]}},
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2, 3]}],
    "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [2]}],
    "dynamic_batching": {"max_queue_delay_microseconds": 100},
    "parameters": {"a": {"string_value": "1"}},
}
# As a server writes it: 64-bit numbers as text, and much filled in.
SERVED: dict[str, Any] = {
    **WANTED,
    "backend": "onnxruntime",
    "default_model_filename": "model.onnx",
    "version_policy": {"specific": {"versions": ["3", "2"]}},
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["2", "3"], "optional": False}],
    "instance_group": [{"name": "m", "kind": "KIND_CPU", "count": 1}],
    "dynamic_batching": {"max_queue_delay_microseconds": "100", "preferred_batch_size": [16]},
    "parameters": {"a": {"string_value": "1"}, "b": {"string_value": "2"}},
}


def test_what_the_server_fills_in_is_no_departure() -> None:
    """Nor is another way to write a number, or another order of the versions."""
    assert departures(WANTED, SERVED) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"max_batch_size": 8}, ["max_batch_size is 8 instead of 16"]),
        (
            {"version_policy": {"specific": {"versions": ["2", "4"]}}},
            ["version_policy.specific.versions[1] is 4 instead of 3"],
        ),
        ({"version_policy": {"latest": {}}}, None),
        (
            {"dynamic_batching": None},
            ['dynamic_batching is null instead of {"max_queue_delay_microseconds": "100"}'],
        ),
        ({"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["3", "2"]}]}, None),
        ({"output": []}, ["output has 0 entries instead of 1"]),
        ({"parameters": {"a": {"string_value": "9"}}}, ['parameters.a.string_value is "9" instead of "1"']),
        ({"parameters": {}}, ['parameters.a is null instead of {"string_value": "1"}']),
    ],
    ids=["number", "versions", "policy", "message", "dims", "list", "parameter", "no parameter"],
)
def test_what_is_otherwise_is_said(change: dict[str, Any], found: list[str] | None) -> None:
    """With its place, and with what was asked for."""
    served = {name: value for name, value in {**SERVED, **change}.items() if value is not None}
    assert departures(WANTED, served) if found is None else departures(WANTED, served) == found


def test_a_field_that_this_client_does_not_know_is_compared_as_it_is() -> None:
    """A newer server may have fields that its client does not have yet."""
    wanted = {**WANTED, "new_field": 1}
    assert departures(wanted, {**SERVED, "new_field": 1, "other": 2}) == []
    assert departures(wanted, SERVED) == ["new_field is null instead of 1"]


def test_what_is_no_configuration_is_a_departure() -> None:
    """An answer is hostile until it has been read."""
    (found,) = departures(WANTED, {"max_batch_size": "many"})
    assert found.startswith("one of them is unreadable: ")
    with pytest.raises(ValueError, match="max_batch_size"):
        config_sha256({"max_batch_size": "many"})


def test_the_digest_does_not_depend_on_how_it_is_written() -> None:
    """Over HTTP and over gRPC, with defaults and without."""
    other = {**SERVED, "max_batch_size": "16"}
    other["input"] = [{"name": "x", "data_type": "TYPE_FP32", "dims": [2, 3]}]
    assert config_sha256(SERVED) == config_sha256(other)
    assert config_sha256(SERVED) != config_sha256(WANTED)
