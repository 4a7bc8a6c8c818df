"""Release files, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from include.model_release.errors import SpecError
from include.model_release.spec.release_file import load_release_spec
from include.model_release.spec.renamed_keys import renamed_keys_told


@dataclass(frozen=True)
class Linted:
    """What a check of one file found: its model and steps, or the first fault; warnings are about old names."""

    path: Path
    model: str = ""
    steps: int = 0
    warnings: tuple[str, ...] = field(default=())
    error: SpecError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {
            "file": str(self.path),
            "model": self.model or None,
            "steps": self.steps,
            "warnings": list(self.warnings),
            "error": None if self.error is None else self.error.to_dict(),
        }

    def told(self) -> list[str]:
        """Return it in lines; a fault is an error, which is printed by itself."""
        lines = [f"{self.path}: warning: {warning}" for warning in self.warnings]
        if self.error is not None:
            return [*lines, f"{self.path}: {self.error.what}"]
        return [*lines, f"{self.path}: fine: {self.model}, {self.steps} steps"]


def lint_file(path: Path) -> Linted:
    """Check one release file. A file named after another model than its own is at fault, too."""
    try:
        with renamed_keys_told() as told:
            spec = load_release_spec(path)
    except SpecError as error:
        return Linted(path, error=error)
    if spec.model != path.stem:
        misnamed = SpecError(
            f"{path.name} is about another model",
            expected=f"`model: {path.stem}`, or the file {spec.model}{path.suffix}",
            found=f"`model: {spec.model}`",
            remedy="Rename the file or correct the key: they must agree.",
        )
        return Linted(path, error=misnamed)
    return Linted(path, spec.model, len(spec.rollout.steps), tuple(map(str, told)))
