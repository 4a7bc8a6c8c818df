"""Which kind of answers is meant: flags, then a person at a terminal, then what fits best."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from slipway.cli.beginning import asking
from slipway.cli.beginning.asking import Wanted, choose
from slipway.cli.beginning.proposal import Proposal
from slipway.cli.failures import CommandError
from slipway_core.spec.release_file import load_release_spec
from tests.support.cli.calls import Call
from tests.support.cli.public_shapes import SHAPES

FOUND = [
    Proposal("vectors", "out", 55, "512 numbers a row, as vectors have them"),
    Proposal("classification", "out", 40, "it may be the scores of 512 classes"),
    Proposal("custom", "other", 25, "no other kind knows it"),
]
OUTPUTS = ("out", "other")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal at which somebody types what is written here."""
    lines = io.StringIO()
    monkeypatch.setattr("sys.stdin", lines)
    monkeypatch.setattr(asking, "is_terminal", lambda: True)
    return lines


def type_in(lines: io.StringIO, text: str) -> None:
    lines.write(text)
    lines.seek(0)


def test_who_is_asked_takes_another_kind(
    typed: io.StringIO, call: Call, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not sure is asked, with each kind that fits and why; the number of one is the answer."""
    (home / "m.onnx").write_bytes(SHAPES["long-vectors"].make())
    type_in(typed, "2\n")
    called = call("init", "pets", "--onnx", "m.onnx")
    assert called.code == 0, called.err
    assert "1. vectors, of the output `out` (likely: 384 numbers a row" in called.out
    assert "The kind is sure: chosen by a person." in called.out
    assert load_release_spec(home / "include/releases/pets.yaml").validation.kind == "classification"


@pytest.mark.parametrize(
    "flags", [("--yes",), ("--kind", "vectors"), ("-o", "json")], ids=lambda flags: flags[0]
)
def test_flags_and_programs_are_asked_nothing(
    flags: tuple[str, ...], typed: io.StringIO, call: Call, home: Path
) -> None:
    """At a terminal as well: nothing is read."""
    (home / "m.onnx").write_bytes(SHAPES["long-vectors"].make())
    called = call("init", "pets", "--onnx", "m.onnx", "--no-run", *flags)
    assert called.code == 0, called.err
    assert "Which one" not in called.out
    assert load_release_spec(home / "include/releases/pets.yaml").validation.kind == "vectors"


def test_without_a_terminal_nobody_is_asked(call: Call, home: Path) -> None:
    """A pipe gets the kind that fits best, and is told how sure that is and why."""
    (home / "m.onnx").write_bytes(SHAPES["long-vectors"].make())
    called = call("init", "pets", "--onnx", "m.onnx", "--no-run")
    assert called.code == 0
    assert "The kind is likely: 384 numbers a row, as vectors have them." in called.out


def test_what_is_sure_is_not_asked() -> None:
    """A person is not asked what is known."""
    sure = Proposal("classification", "out", 95, "a softmax")
    assert choose([sure, *FOUND], OUTPUTS, Wanted(asks=True)) == sure


def test_an_output_that_is_named_is_taken() -> None:
    """The best kind of that output."""
    assert choose(FOUND, OUTPUTS, Wanted(output="other")).kind == "custom"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Wanted(kind="vectros"), "did you mean vectors?"),
        (Wanted(output="uot"), "did you mean out?"),
        (Wanted(kind="segmentation"), "cannot be of the kind segmentation"),
        (Wanted(kind="vectors", output="other"), "cannot be of the kind vectors"),
    ],
    ids=["kind", "output", "not-of-that-kind", "not-that-output"],
)
def test_flags_that_fit_nothing_are_refused(wanted: Wanted, told: str) -> None:
    """The error names what there is."""
    with pytest.raises(CommandError) as refused:
        choose(FOUND, OUTPUTS, wanted)
    assert told in str(refused.value)
    assert refused.value.expected is not None


@pytest.mark.parametrize("name", ["sigmoid", "ocr"])
def test_a_scorer_of_the_own_is_not_written_over(name: str, call: Call, home: Path) -> None:
    """What a person has changed stays, unless --force is given."""
    (home / "m.onnx").write_bytes(SHAPES[name].make())
    scorer = home / "include/releases/pets-scorer.py"
    scorer.parent.mkdir(parents=True)
    scorer.write_text("mine")
    called = call("init", "pets", "--onnx", "m.onnx", "--no-run", "--kind", "custom")
    assert (called.code, scorer.read_text()) == (2, "mine")
    assert "pets-scorer.py already exists" in called.err
    assert call("init", "pets", "--onnx", "m.onnx", "--no-run", "--kind", "custom", "--force").code == 0
    assert "def score(" in scorer.read_text()
