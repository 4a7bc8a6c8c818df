"""Models that keep a state between requests are refused: a split by percent would tear their sequences apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipway_core.errors import ModelInvalidError, SpecError
from slipway_core.spec.__main__ import main
from slipway_core.spec.release_file import Serving, parse_release_spec
from slipway_core.spec.serving.sequences import as_released, keeps_state, require_no_sequences
from slipway_core.triton_config.pbtxt import from_pbtxt

_FILE = "model: counter\nsource: {format: onnx}\nserving: {sequence_batching: %s}\n"


@pytest.mark.parametrize(
    "options", ["{}", "{strategy: oldest, max_candidate_sequences: 4}", "{iterative: false}"]
)
def test_a_release_file_with_sequences_is_refused_by_the_lint(
    options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program that checks release files refuses it, with the reason and what can be done."""
    with pytest.raises(SpecError, match=r"requests of one sequence must all reach the same version"):
        parse_release_spec(_FILE % options, "counter.yaml")
    path = tmp_path / "counter.yaml"
    path.write_text(_FILE % options)
    assert main([str(path)]) == 1
    assert "Let requests carry their state" in capsys.readouterr().err


@pytest.mark.parametrize("options", ["null", "{iterative: true}"])
def test_what_has_no_sequences_of_requests_is_released(options: str) -> None:
    """Training's sequences may be removed, and an iterative sequence is one request."""
    parse_release_spec(_FILE % options, "counter.yaml")


@pytest.mark.parametrize(
    ("text", "stateful"),
    [
        ("sequence_batching { }", True),
        ("sequence_batching { oldest { } }", True),
        ("sequence_batching { direct { } state { input_name: 'a' output_name: 'b' } }", True),
        ("sequence_batching { iterative_sequence: true }", False),
        ("dynamic_batching { }", False),
        ("", False),
    ],
)
def test_configuration_with_sequences_is_known(text: str, stateful: bool) -> None:
    """Any `sequence_batching` counts, an empty one too, but one of iterative sequences."""
    assert keeps_state(from_pbtxt(text)) is stateful


def test_any_member_with_sequences_refuses_the_whole() -> None:
    """A member's state is the ensemble's: the message names each model that keeps one."""
    stateful: dict[str, Any] = {"sequence_batching": {"direct": {}}}
    with pytest.raises(
        ModelInvalidError, match=r"of memory, tracker: `sequence_batching` cannot be released"
    ):
        require_no_sequences({"tracker": stateful, "ensemble": {}, "memory": stateful})
    require_no_sequences({"ensemble": {}, "scorer": {"dynamic_batching": {}}})


def test_the_release_file_may_remove_trainings_sequences() -> None:
    """Only `null` does; left out, training's configuration stays as it is."""
    config = {"name": "counter", "sequence_batching": {}}
    assert as_released(config, Serving()) == config
    assert as_released(config, Serving.model_validate({"sequence_batching": None})) == {"name": "counter"}
