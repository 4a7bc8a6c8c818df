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
from slipway_pod.errors import PodError
from slipway_rules.ensembles import CALLED_BY_PARAMETER, load_order
from slipway_rules.errors import RuleError
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
        config.parameters[f"{place}{CALLED_BY_PARAMETER}"].string_value = called
    return program.Member(name, config, {}, {}, (), None)


def members_of(
    steps: Mapping[str, list[str]], parameters: Mapping[str, list[str]]
) -> dict[str, program.Member]:
    """The models of a repository."""
    return {name: member_of(name, steps[name], parameters.get(name, [])) for name in steps}


def test_a_member_calls_by_steps_and_by_parameters() -> None:
    """Both are read from its configuration; a parameter counts where it names a member."""
    members = members_of({"top": ["a"], "a": [], "b": []}, {"top": ["b", "absent"]})
    assert members["top"].calls(members) == ["a", "b"]


def refusal(members: dict[str, program.Member]) -> PodError | None:
    """Why the pod refuses the models as one unit; None where it does not."""
    try:
        program.require_unit(members, "top")
    except PodError as error:
        return error
    return None


@given(GRAPHS)
def test_a_unit_has_an_order_of_loading(steps: dict[str, list[str]]) -> None:
    """Models that are taken for one unit can be loaded member by member; of others it is told which call is wrong."""
    error = refusal(members_of(steps, {}))
    circle_or_stranger = error is not None and "does not use all" not in error.what
    calls = {name: list(dict.fromkeys(called)) for name, called in steps.items()}
    try:
        order: list[str] | None = load_order(calls, ["top"])
    except RuleError:
        order = None
    assert circle_or_stranger == (order is None)
    if error is None:
        assert order is not None
        assert order[-1] == "top"
        assert set(order) == steps.keys()


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
