"""convert_ensemble.py: which models call which, judged as the project's own reading of configurations does."""

from __future__ import annotations

from collections.abc import Mapping

import convert_ensemble as program
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from include.model_release.errors import ModelInvalidError
from include.model_release.triton_config.ensemble import called_models, load_order
from include.model_release.triton_config.pbtxt import from_pbtxt
from slipway_pod.errors import PodError
from slipway_pod.models.triton_files import config_text

NAMES = ("top", "a", "b", "c")
CALLS = st.lists(st.sampled_from((*NAMES, "absent")), max_size=3)
GRAPHS = st.fixed_dictionaries({"top": CALLS}, optional=dict.fromkeys(NAMES[1:], CALLS))


def member_of(name: str, steps: list[str], parameters: list[str]) -> program.Member:
    """A model that calls others by the steps of an ensemble and by parameters."""
    config = model_config_pb2.ModelConfig(name=name)
    for called in steps:
        config.ensemble_scheduling.step.add(model_name=called)
    for place, called in enumerate(parameters):
        config.parameters[f"{place}{program.CALLED_BY_PARAMETER}"].string_value = called
    return program.Member(name, config, {}, {}, (), None)


def members_of(
    steps: Mapping[str, list[str]], parameters: Mapping[str, list[str]]
) -> dict[str, program.Member]:
    """The models of a repository."""
    return {name: member_of(name, steps[name], parameters.get(name, [])) for name in steps}


@given(GRAPHS, GRAPHS)
def test_called_models_are_the_same_here_and_there(
    steps: dict[str, list[str]], parameters: dict[str, list[str]]
) -> None:
    """By steps or by parameters, a model calls the same others for the pod and for the release."""
    members = members_of(steps, parameters)
    for member in members.values():
        config = from_pbtxt(config_text(member.config))
        assert member.calls(members) == called_models(config, members)


def refusal(members: dict[str, program.Member]) -> PodError | None:
    """Why the pod refuses the models as one unit; None where it does not."""
    try:
        program.require_unit(members, "top")
    except PodError as error:
        return error
    return None


def order_of(members: dict[str, program.Member]) -> list[str] | None:
    """The order in which the release loads the models; None where there is none."""
    try:
        return load_order({name: from_pbtxt(config_text(one.config)) for name, one in members.items()})
    except ModelInvalidError:
        return None


@given(GRAPHS)
def test_a_unit_for_the_pod_has_an_order_of_loading(steps: dict[str, list[str]]) -> None:
    """Models that the pod takes for one unit are loaded member by member, the released one last; others are not."""
    members = members_of(steps, {})
    error, order = refusal(members), order_of(members)
    if error is None:
        assert order is not None
        assert order[-1] == "top"
    elif "does not use all" not in error.what:
        assert order is None
