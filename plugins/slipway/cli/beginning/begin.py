"""A model's beginning: two files, and what to do next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from slipway.cli.beginning import golden as golden_set
from slipway.cli.beginning.asking import Wanted, choose
from slipway.cli.beginning.proposal import Output, Proposal, outputs_of, proposals
from slipway.cli.beginning.release_text import release_text, scorer_name
from slipway.cli.beginning.scorer_text import scorer_text
from slipway.cli.beginning.trial import Trial, try_model, write_arrays
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.model_files.onnx_file import OnnxFile, read_onnx
from slipway.cli.model_files.servable import require_servable
from slipway.cli.plain import plain
from slipway_core.errors import SlipwayError, UnknownModelError
from slipway_core.identifiers import validate_model_name
from slipway_core.spec.release_file import parse_release_spec

Labels = Literal["none", "made_up", "from_model"]


@dataclass(frozen=True)
class Begun:
    """What was written."""

    model: str
    model_path: Path
    release_path: Path
    golden_path: Path
    file: OnnxFile
    trial: Trial
    chosen: Proposal
    rows: int
    labels: Labels
    scorer_path: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {
            "model": self.model,
            "release_file": str(self.release_path),
            "golden_set": str(self.golden_path),
            "scorer": None if self.scorer_path is None else str(self.scorer_path),
            "signature": self.file.signature.model_dump(mode="json"),
            "output": self.chosen.output,
            "kind": self.chosen.kind,
            "sureness": self.chosen.sureness,
            "why": self.chosen.why,
            "not_tried": self.trial.problem or None,
            "rows": self.rows,
        }

    def lines(self) -> list[str]:
        """Return it in lines, with what to do next."""
        takes = ", ".join(f"{tensor.name} {tensor}" for tensor in self.file.signature.inputs)
        ready = json.dumps({"model": self.model, "version": 1, "start": "by_hand"})
        chosen = self.chosen
        labels = _LABELS[self.labels]
        tried = (
            [f"The model did not answer the made-up rows, so only its shapes were used: {self.trial.problem}"]
            if self.trial.problem
            else []
        )
        scorer = (
            [
                f"Wrote {self.scorer_path}",
                "  defines a right answer and an agreement; change it to what your users need",
            ]
            if self.scorer_path
            else []
        )
        return [
            plain(
                f"{self.model} takes {takes}; its answers are taken from `{chosen.output}` ({chosen.kind})."
            ),
            plain(f"The kind is {chosen.sureness}: {chosen.why}."),
            *map(plain, tried),
            "",
            f"Wrote {self.release_path}",
            "  the release file; a comment explains each decision",
            *scorer,
            f"Wrote {self.golden_path}",
            f"  {self.rows} made-up rows. {labels}",
            "",
            "Next:",
            f"  1. slipway lint {self.release_path}",
            f"  2. put held-out rows and their answers into {self.golden_path}",
            f"  3. upload these, ready.json last, to incoming/{self.model}/1/ in the bucket:",
            f"       {self.model_path.name} as {_MODEL_FILE}; {self.golden_path.name} as golden.npz;",
            f"       ready.json: {ready}",
            f"  4. slipway release {self.model} 1 --wait",
        ]


_MODEL_FILE = "model.onnx"
_LABELS = {
    "from_model": "Its labels are the model's own answers. Put the true ones in before you rely on the accuracy.",
    "made_up": "Its labels are all 0, so the gate refuses the version until you put the true answers in.",
    "none": "It has no labels. Without them, the first version is compared with nothing, and the gate says so.",
}


def begin(
    model: str,
    onnx: Path,
    into: Path,
    golden: Path,
    rows: int | None,
    *,
    force: bool = False,
    from_model: bool = False,
    wanted: Wanted | None = None,
    runs: bool = True,
) -> Begun:
    """Write a release file and the skeleton of a golden set, and for answers of a kind of their own a scorer.

    :param rows: of the golden set; None: as many as fit.
    :param from_model: the labels are the model's own answers.
    :param wanted: the kind and the output, where they are said.
    :param runs: False: the model is not run, and its file alone is read.
    :raises CommandError: the model cannot be read, or a file is there already.
    """
    _require_name(model)
    release_path, scorer_path = into / f"{model}.yaml", into / scorer_name(model)
    if not force:
        _require_free(release_path, golden)
    file = read_onnx(onnx)
    require_servable(onnx)
    try:
        trial = try_model(file, runs=runs or from_model)
        chosen = choose(proposals(file, trial), file.outputs_in_order, wanted or Wanted())
        if not force and chosen.kind == "custom":
            _require_free(scorer_path)
        begun = _made(model, file, trial, chosen, rows, from_model=from_model)
    except SlipwayError:
        raise
    except (
        Exception
    ) as error:  # names and sizes come from a foreign file: each may be what nobody has thought of
        raise CommandError(
            f"cannot write a release file for {onnx}",
            code=ExitCode.USAGE,
            expected="inputs and outputs that a golden set can have",
            found=f"{type(error).__name__}: {plain(str(error))[:200]}",
            remedy="write both by hand: docs/bring-your-model.md",
        ) from error
    _write(begun, release_path, scorer_path, golden)
    label = golden_set.label_name(file.signature)
    labels: Labels = "from_model" if from_model else "made_up" if label in begun.arrays else "none"
    number = golden_set.rows_in(begun.arrays, trial)
    scorer = scorer_path if begun.scorer else None
    return Begun(
        model,
        onnx,
        release_path,
        golden,
        file,
        trial,
        chosen,
        number,
        labels,
        scorer,
    )


@dataclass(frozen=True)
class _Files:
    """What is written: the release file's text, the golden set's arrays, and the scorer's text or ""."""

    text: str
    arrays: dict[str, Any]
    scorer: str


def _made(
    model: str, file: OnnxFile, trial: Trial, chosen: Proposal, rows: int | None, *, from_model: bool
) -> _Files:
    arrays = golden_set.skeleton(file, trial, chosen, rows)
    label = golden_set.label_name(file.signature)
    if from_model:
        arrays[label] = golden_set.answered_by_model(file, trial, chosen, arrays)
        golden_set.require_taken(file, trial, chosen, arrays)
    text = release_text(model, _MODEL_FILE, file, trial, chosen, labelled=label in arrays)
    scorer = _scorer(model, chosen, outputs_of(file, trial)) if chosen.kind == "custom" else ""
    parse_release_spec(text, f"{model}.yaml")
    return _Files(text, arrays, scorer)


def _scorer(model: str, chosen: Proposal, outputs: list[Output]) -> str:
    output = next(one for one in outputs if one.name == chosen.output)
    lists = output.is_float and len(output.row) > 1 and output.row[-1] != 1
    return scorer_text(model, chosen, lists=lists, probabilities=chosen.is_probability)


def _write(begun: _Files, release_path: Path, scorer_path: Path, golden: Path) -> None:
    try:
        golden.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(golden, begun.arrays)
        release_path.parent.mkdir(parents=True, exist_ok=True)
        if begun.scorer:
            scorer_path.write_text(begun.scorer, encoding="utf-8")
        release_path.write_text(begun.text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"{error.filename or release_path} cannot be written",
            code=ExitCode.USAGE,
            expected="a folder that you can write to",
            found=error.strerror,
            remedy="choose another one with --into or --golden",
        ) from error


def _require_name(model: str) -> None:
    try:
        validate_model_name(model)
    except UnknownModelError as error:
        raise CommandError(
            error.what,
            code=ExitCode.USAGE,
            expected=error.expected,
            found=error.found,
            remedy="give it another name, such as my-model",
        ) from None


def _require_free(*paths: Path) -> None:
    there = next((path for path in paths if path.exists()), None)
    if there is not None:
        raise CommandError(
            f"{there} already exists",
            code=ExitCode.USAGE,
            expected="a new file",
            remedy="choose another name, or overwrite it with --force",
        )
