"""convert_ensemble.py: what it refuses, and which models call which, as the project reads configurations."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

import convert_ensemble as program
from slipway_core.errors import ModelInvalidError
from slipway_core.triton_config.ensemble import called_models, load_order
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_pod.errors import PodError
from slipway_pod.models.triton_files import config_text
from tests.support.serving.broken_repositories import MISFITS, NO_UNITS, changed, without_unit
from tests.support.serving.ensembles import write_files

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


def refused(files: dict[str, bytes], folder: Path) -> PodError:
    """Why the program refuses a repository that was fetched."""
    source = write_files(folder / "source", files)
    with pytest.raises(PodError) as refusal:
        program.check(source, folder / "repository", Namespace(model="prices", version=7))
    assert not (folder / "repository").exists()
    return refusal.value


@pytest.mark.parametrize("name", MISFITS)
def test_steps_that_do_not_fit_are_refused(tmp_path: Path, name: str) -> None:
    """A step that calls a stranger, or whose tensors do not fit its member's, is refused and described."""
    change, words = MISFITS[name]
    error = refused(changed(change), tmp_path)
    assert error.kind == "ModelInvalidError"
    assert words in f"{error.what} {error.found}"


@pytest.mark.parametrize("name", NO_UNITS)
def test_repository_that_is_no_unit_is_refused(tmp_path: Path, name: str) -> None:
    """A repository with something missing, superfluous or ambiguous is refused and what it is is named."""
    error = refused(without_unit(name), tmp_path)
    assert error.kind == "ModelInvalidError"
    assert NO_UNITS[name][1] in f"{error.what} {error.found}"
