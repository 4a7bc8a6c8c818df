"""A server's configuration against the published one: what it lacks, what it has beyond it, what is the hardware's."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.served import comparable, served_differences

PUBLISHED: dict[str, Any] = {
    "name": "rent",
    "platform": "onnxruntime_onnx",
    "max_batch_size": 8,
    "instance_group": [{"kind": "KIND_GPU", "count": 1}],
}


def test_what_triton_fills_in_is_no_difference() -> None:
    """Names of instances, the numbers of its GPUs, and defaults mean nothing else."""
    served = {
        **PUBLISHED,
        "instance_group": [{"name": "rent_0", "kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}],
        "version_policy": {"latest": {"num_versions": 1}},
        "default_model_filename": "model.onnx",
    }
    told = comparable(served, wanted=PUBLISHED)
    assert served_differences(PUBLISHED, told) == []
    assert config_sha256(told) == config_sha256(PUBLISHED)


def test_groups_that_nobody_published_are_the_servers() -> None:
    """A configuration without groups of instances leaves them to the server."""
    wanted = {key: value for key, value in PUBLISHED.items() if key != "instance_group"}
    assert served_differences(wanted, comparable(PUBLISHED, wanted=wanted)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_batch_size": 4}, "max_batch_size is 4 instead of 8"),
        ({"dynamic_batching": {"max_queue_delay_microseconds": 500}}, "dynamic_batching is set, which"),
        ({"instance_group": [{"kind": "KIND_GPU", "count": 3}]}, "instance_group[0].count is 3 instead of 1"),
        ({"instance_group": [{"kind": "KIND_GPU", "count": 1, "passive": True}]}, "passive"),
    ],
)
def test_what_somebody_changed_is_a_difference(change: dict[str, Any], told: str) -> None:
    """Also what was added, where the published configuration says nothing."""
    served = comparable({**PUBLISHED, **change}, wanted=PUBLISHED)
    (found,) = served_differences(PUBLISHED, served)
    assert told in found
    assert config_sha256(served) != config_sha256(PUBLISHED)


def test_published_numbers_of_gpus_count() -> None:
    """Where the published configuration names GPUs, others are a difference."""
    wanted = {**PUBLISHED, "instance_group": [{"kind": "KIND_GPU", "count": 1, "gpus": [0]}]}
    served = {**PUBLISHED, "instance_group": [{"kind": "KIND_GPU", "count": 1, "gpus": [1]}]}
    assert served_differences(wanted, comparable(served, wanted=wanted)) != []
