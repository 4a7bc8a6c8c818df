"""Release files, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway_core.errors import SlipwayError, SpecError
from slipway_core.spec.release_file import load_release_spec
from slipway_core.written_numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slipway.cli.checking.asking_lint import Askable
    from slipway_core.spec.release_file import ReleaseSpec


@dataclass(frozen=True)
class Linted:
    """What a check of one file found: its model and steps, or the first fault.

    `notes` say what the judge of its canary will not see, and what it allows to the last step.

    `askable` is there where a model or a golden set was looked at with it.
    """

    path: Path
    model: str = ""
    steps: int = 0
    error: SlipwayError | None = None
    askable: Askable | None = None
    notes: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {
            "file": str(self.path),
            "model": self.model or None,
            "steps": self.steps,
            "notes": list(self.notes),
            "error": None if self.error is None else self.error.to_dict(),
            "askable": None if self.askable is None else self.askable.as_json(),
        }

    def lines(self) -> list[str]:
        """Return it in lines; a fault is an error, which is printed by itself."""
        lines: list[str] = []
        if self.error is not None:
            return [*lines, f"{self.path}: {self.error.what}"]
        lines.append(f"{self.path}: fine: {self.model}, {counted(self.steps, 'step')}")
        lines += [f"{self.path}: note: {note}" for note in self.notes]
        return [*lines, *(f"{self.path}: {line}" for line in (self.askable.lines() if self.askable else ()))]


def lint_file(path: Path, model: Path | None = None, golden: Path | None = None) -> Linted:
    """Check one release file. A file named after another model than its own is at fault, too.

    :param model: the model's file, and
    :param golden: the golden set: whether the model can be asked it.
    """
    try:
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
    askable = None
    if model is not None or golden is not None:
        from slipway.cli.checking.asking_lint import lint_askable

        try:
            askable = lint_askable(spec, model, golden)
        except SlipwayError as error:
            return Linted(path, spec.model, error=error)
    steps = len(spec.rollout.steps)
    notes = (*_blind_spots(spec), *_switches(spec), *_unseen_tail(spec))
    return Linted(path, spec.model, steps, askable=askable, notes=notes)


def _blind_spots(spec: ReleaseSpec) -> Iterator[str]:
    """Say what the metrics source of a release does not see."""
    from slipway_core.metrics.source_kind import visibility_of

    source, sees = spec.rollout.metrics.in_words(), visibility_of(spec.rollout.metrics)
    if sees.unseen:
        yield f"the canary's metrics source ({source}) does not see: {', '.join(sees.unseen)}"
    if sees.unsure:
        yield f"whether it sees these depends on your own selectors: {', '.join(sees.unsure)}"


def _switches(spec: ReleaseSpec) -> Iterator[str]:
    """Say which switches of the cluster a first deployment needs."""
    from slipway_core.rollout.dialects.registry import dialect_named
    from slipway_core.rollout.inference_service import inference_service_manifest

    dialect = dialect_named(spec.rollout.deployment_mode)
    needed = dialect.switches(inference_service_manifest(spec, ""))
    if needed:
        where = "/".join(dialect.config_map)
        yield f"in {dialect.name} mode the predictor needs, in the ConfigMap {where}: {', '.join(needed)}"


def _unseen_tail(spec: ReleaseSpec) -> Iterator[str]:
    """Say how many slow answers no step of a release's canary will find."""
    from slipway_core.canary.coverage.cold_cache import AS_WARM_WEIGHT, allowed_share
    from slipway_core.written_numbers import number

    rollout = spec.rollout
    if not rollout.steps:
        return
    last = rollout.steps[-1].weight
    share = allowed_share(rollout.analysis, last)
    if share:
        yield (
            f"the canary's last step has weight {last} %: a slow tail of up to {number(100 * share)} % of its "
            f"answers passes for a colder cache, and no later step would find it; add a step of {AS_WARM_WEIGHT} % or "
            "more, or lower `rollout.analysis.cold_cache_percent`"
        )
