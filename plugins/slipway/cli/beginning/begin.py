"""A model's beginning: two files, and what to do next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.model_release.errors import SlipwayError, UnknownModelError
from include.model_release.identifiers import validate_model_name
from include.model_release.spec.release_file import parse_release_spec
from include.model_release.tensors import ModelSignature
from slipway.cli.beginning import golden as golden_set
from slipway.cli.beginning.release_text import release_text
from slipway.cli.beginning.signature import Answers, guess_answers, read_signature
from slipway.cli.checking.onnx_file import require_servable
from slipway.cli.failures import CommandError, ExitCode
from slipway.cli.plain import plain


@dataclass(frozen=True)
class Begun:
    """What was written."""

    model: str
    model_path: Path
    release_path: Path
    golden_path: Path
    signature: ModelSignature
    answers: Answers
    rows: int
    labels_are_true: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {
            "model": self.model,
            "release_file": str(self.release_path),
            "golden_set": str(self.golden_path),
            "signature": self.signature.model_dump(mode="json"),
            "output": self.answers.output,
            "kind": self.answers.kind,
            "rows": self.rows,
        }

    def told(self) -> list[str]:
        """Return it in lines, with what to do next."""
        takes = ", ".join(f"{tensor.name} {tensor}" for tensor in self.signature.inputs)
        ready = json.dumps({"model": self.model, "version": 1, "start": "by_hand"})
        labels = (
            "Its labels are the model's own answers: put the true ones in before you rely on the accuracy."
            if self.labels_are_true
            else "Its labels are all 0: the gate refuses the version until the true answers are in."
        )
        return [
            plain(
                f"{self.model} takes {takes}; its answers are taken from `{self.answers.output}` ({self.answers.kind})."
            ),
            "",
            f"Wrote {self.release_path}",
            "  the release file; each decision has a comment",
            f"Wrote {self.golden_path}",
            f"  {self.rows} made-up rows. {labels}",
            "",
            "Next:",
            f"  1. slipway lint {self.release_path}",
            f"  2. put held-out rows and their answers into {self.golden_path}",
            f"  3. upload, the last one last, to incoming/{self.model}/1/ in the bucket:",
            f"       {self.model_path.name} as {_MODEL_FILE}; {self.golden_path.name} as golden.npz;",
            f"       ready.json: {ready}",
            f"  4. slipway release {self.model} 1 --wait",
        ]


_MODEL_FILE = "model.onnx"


def begin(
    model: str,
    onnx: Path,
    into: Path,
    golden: Path,
    rows: int,
    *,
    force: bool = False,
    from_model: bool = False,
) -> Begun:
    """Write a release file and the skeleton of a golden set.

    :param from_model: the labels are the model's own answers.
    :raises CommandError: the model cannot be read, or a file is there already.
    """
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
    release_path = into / f"{model}.yaml"
    if not force:
        _require_free(release_path, golden)
    signature = read_signature(onnx)
    require_servable(onnx)
    answers = guess_answers(signature)
    label = golden_set.label_name(signature)
    try:
        arrays = golden_set.skeleton(signature, answers, rows)
        if from_model:
            arrays[label] = golden_set.answered_by_model(onnx, signature, answers, arrays)
        text = release_text(model, _MODEL_FILE, signature, answers)
        parse_release_spec(text, release_path.name)
    except SlipwayError:
        raise
    except (
        Exception
    ) as error:  # names and sizes come from a foreign file: each may be what nobody has thought of
        raise CommandError(
            f"no release file can be begun for {onnx}",
            code=ExitCode.USAGE,
            expected="inputs and outputs that a golden set can be made for",
            found=f"{type(error).__name__}: {plain(str(error))[:200]}",
            remedy="write both by hand: docs/bring-your-model.md",
        ) from error
    try:
        golden_set.write(golden, arrays)
        release_path.parent.mkdir(parents=True, exist_ok=True)
        release_path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"{error.filename or release_path} cannot be written",
            code=ExitCode.USAGE,
            expected="a folder that you may write to",
            found=error.strerror,
            remedy="name another one by --into or --golden",
        ) from error
    return Begun(model, onnx, release_path, golden, signature, answers, len(arrays[label]), from_model)


def _require_free(*paths: Path) -> None:
    there = next((path for path in paths if path.exists()), None)
    if there is not None:
        raise CommandError(
            f"{there} is there already",
            code=ExitCode.USAGE,
            expected="no such file",
            found="one that somebody may have written",
            remedy="give another name, or --force to write over it",
        )
