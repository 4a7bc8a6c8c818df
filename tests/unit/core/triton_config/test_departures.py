"""Where a server's configuration is not what was asked for: groups and tensors are compared by what they are."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipway_core.triton_config.ensemble import departures

_GROUPS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["KIND_GPU", "KIND_CPU"]), "count": st.integers(1, 3)},
        optional={
            "gpus": st.lists(st.integers(0, 3), min_size=1, max_size=2),
            "host_policy": st.sampled_from("ab"),
        },
    ),
    min_size=1,
    max_size=4,
)


def _config(groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "m", "backend": "python", "max_batch_size": 8, "instance_group": groups}


def _served(groups: list[dict[str, Any]], chance: random.Random) -> dict[str, Any]:
    """What a server with four GPUs tells: names, all GPUs where none is named, and defaults, in whatever order."""
    told = copy.deepcopy(groups)
    for index, group in enumerate(told):
        group.setdefault("gpus", [0, 1, 2, 3] if group["kind"] == "KIND_GPU" else [])
        group.update(name=f"m_{index}", passive=False, secondary_devices=[])
        group.setdefault("host_policy", f"numa{chance.randrange(9)}")
    chance.shuffle(told)
    for index, group in enumerate(told):
        group["name"] = f"m_{index}"
    return {**_config(told), "version_policy": {"latest": {"num_versions": 1}}}


@given(_GROUPS, st.randoms(use_true_random=False))
def test_what_a_server_fills_in_is_no_departure(groups: list[dict[str, Any]], chance: random.Random) -> None:
    """However the groups stand after the server has completed them: each that was asked for has one of its own."""
    assert departures(_config(groups), _served(groups, chance)) == []


@given(_GROUPS, st.randoms(use_true_random=False), st.data())
def test_a_group_that_is_not_served_is_told(
    groups: list[dict[str, Any]], chance: random.Random, data: st.DataObject
) -> None:
    """One instance more than was asked for, in one group, shows, whatever the others have."""
    served = _served(groups, chance)
    data.draw(st.sampled_from(served["instance_group"]))["count"] += 7
    (told,) = departures(_config(groups), served)
    assert told.startswith("instance_group[")
    assert ".count is" in told


def test_groups_out_of_step() -> None:
    """The GPUs that a server adds change the order in which groups are written, and nothing else."""
    wanted = _config([{"kind": "KIND_GPU", "count": 1}, {"kind": "KIND_GPU", "count": 2, "gpus": [0]}])
    served = _config(
        [{"kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}, {"kind": "KIND_GPU", "count": 2, "gpus": [0]}]
    )
    assert departures(wanted, served) == []
    served["instance_group"][1]["gpus"] = [1]
    assert departures(wanted, served) == ["instance_group[1].gpus[0] is 1 instead of 0"]


def test_one_groups_match_may_be_anothers_only_one() -> None:
    """A group that several would suit leaves the one that another needs."""
    wanted = _config([{"host_policy": "a"}, {"kind": "KIND_CPU"}])
    served = _config([{"kind": "KIND_CPU", "host_policy": "a"}, {"kind": "KIND_GPU", "host_policy": "a"}])
    assert departures(wanted, served) == []
    assert departures(wanted, {**served, "instance_group": served["instance_group"][:1]}) != []


def test_where_order_counts_it_is_compared() -> None:
    """Warm-ups are sent in turn, and LibTorch takes tensors by their place."""
    config = _config([])
    warm = [{"name": "a", "batch_size": 1}, {"name": "b", "batch_size": 1}]
    assert departures({**config, "model_warmup": warm}, {**config, "model_warmup": warm[::-1]}) != []
    tensors = [{"name": "a", "dims": [1]}, {"name": "b", "dims": [1]}]
    for backend, differs in (("pytorch", True), ("python", False)):
        one, other = ({**config, "backend": backend, "input": list_} for list_ in (tensors, tensors[::-1]))
        assert bool(departures(one, other)) is differs


def test_a_lost_parameter_is_told_with_its_key() -> None:
    """What a map lacks, or has otherwise, is named by its key; what it has beyond is the server's."""
    wanted = {"name": "m", "parameters": {"a": {"string_value": "1"}, "b": {"string_value": "2"}}}
    served = {"name": "m", "parameters": {"a": {"string_value": "1"}, "c": {"string_value": "3"}}}
    assert departures(wanted, served) == ['parameters.b is null instead of {"string_value": "2"}']
    served["parameters"]["b"] = {"string_value": "9"}
    assert departures(wanted, served) == ['parameters.b.string_value is "9" instead of "2"']
