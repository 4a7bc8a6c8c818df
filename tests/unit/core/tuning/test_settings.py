"""What is searched: which lists fit a configuration, and the configuration with a setting."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import SpecError, UserError
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.tuning import TuningSearch
from slipway_core.tuning.settings import (
    Setting,
    config_with,
    present_setting,
    require_tunable,
    space_of,
    triton_defaults,
)
from tests.support.tuning.plans import CONFIG

SEARCH = TuningSearch(
    max_queue_delays_us=(100, 0), preferred_batch_sizes=((), (8, 4), (128,)), instances=(2, 1)
)


def test_the_space_has_each_setting_once_and_none_that_triton_refuses() -> None:
    """Lists are sorted; a preferred size above the largest batch is left out; without batching no size is named."""
    space = space_of(SEARCH, CONFIG)
    settings = list(space.settings())
    assert len(settings) == len(set(settings)) == 2 * (1 + 2 * 2)
    assert space.preferred_batch_sizes == ((), (4, 8))
    assert Setting(instances=1) in settings
    assert set(space.left_out) == {"precision"}


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        ({"max_batch_size": 0}, "dynamic batching"),
        ({"sequence_batching": {}}, "dynamic batching"),
        ({"instance_group": [{"count": 1}, {"count": 2}]}, "instances"),
    ],
)
def test_what_cannot_be_searched_is_said(changed: dict[str, object], left_out: str) -> None:
    """A model without batches has no batching to search, one with several groups of instances no one number."""
    space = space_of(SEARCH, {**CONFIG, **changed})
    assert left_out in space.left_out
    if left_out == "instances":
        assert space.instances == (None,)
    else:
        assert {one.max_queue_delay_us for one in space.settings()} == {None}


def test_a_configuration_with_a_setting_keeps_all_else() -> None:
    """Delay, preferred sizes and count change; the other options of batching and of the group stay."""
    config = {
        **CONFIG,
        "dynamic_batching": {"preserve_ordering": True, "preferred_batch_size": [2]},
        "instance_group": [{"kind": "KIND_GPU", "gpus": [0], "count": 1}],
    }
    setting = Setting(max_queue_delay_us=500, preferred_batch_sizes=(4,), instances=3)
    changed = config_with(config, setting)
    assert changed["dynamic_batching"] == {
        "preserve_ordering": True,
        "preferred_batch_size": [4],
        "max_queue_delay_microseconds": 500,
    }
    assert changed["instance_group"] == [{"kind": "KIND_GPU", "gpus": [0], "count": 3}]
    assert present_setting(changed) == setting
    assert "dynamic_batching" not in config_with(config, Setting(instances=1))


def test_tritons_defaults_and_the_present_setting() -> None:
    """Triton batches nothing by itself; the present setting is that of the configuration."""
    assert triton_defaults(CONFIG) == Setting(instances=1)
    assert present_setting(CONFIG) == Setting(max_queue_delay_us=1000, instances=1)
    assert present_setting(CONFIG).label() == "batching with at most 1000 µs of delay, 1 instance"
    assert Setting(instances=2).label() == "no dynamic batching, 2 instances"


@pytest.mark.parametrize("groups", [{}, {"instance_group": [{"kind": "KIND_CPU"}]}])
def test_a_number_that_only_triton_knows_is_not_guessed(groups: dict[str, Any]) -> None:
    """Without a number Triton runs two instances of some models: what is measured as present is what is published."""
    config = {key: value for key, value in CONFIG.items() if key != "instance_group"} | groups
    assert present_setting(config) == Setting(max_queue_delay_us=1000)
    assert triton_defaults(config) == Setting()
    assert config_with(config, present_setting(config)).get("instance_group") == groups.get("instance_group")
    assert space_of(SEARCH, config).instances == (1, 2)


def test_an_ensemble_cannot_be_tuned_as_one() -> None:
    """Its members each have settings of their own; the error says what to do."""
    with pytest.raises(UserError, match="tune the members"):
        require_tunable({"digits": {"platform": "ensemble"}, "scale": CONFIG}, "digits")
    assert require_tunable({"digits": CONFIG}, "digits") == CONFIG


def test_a_search_for_latency_needs_a_rate() -> None:
    """Without the rate nobody knows at which load the latency is meant; the throughput's bound is the SLO's."""
    head = "model: digits\nsource: {format: onnx}\n"
    assert parse_release_spec(head, "digits.yaml").tuning.objective == "throughput"
    with pytest.raises(SpecError, match="needs `request_rate_rps`"):
        parse_release_spec(f"{head}tuning: {{objective: latency}}\n", "digits.yaml")
