"""What changed between the stable version and a candidate, as the few lines that a person reads before an approval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from slipway.web import wording
from slipway.web.comparison.comparison import Side, VersionComparison, compare
from slipway.web.comparison.measured import is_better

LINES_SHOWN = 12
"""Lines of each kind; the page of both versions has all of them."""
# What shows where a version comes from. Who released it, and when, differs always.
_PROVENANCE = ("dataset version", "accuracy reported by training", "framework", "checkpoint", "engines")

Effect = Literal["better", "worse", ""]


@dataclass(frozen=True)
class Change:
    """One line: `before` and `after` as text, "" for nothing; `by` is the difference, `effect` what it means."""

    name: str
    before: str
    after: str
    by: str = ""
    effect: Effect = ""


@dataclass(frozen=True)
class Changes:
    """What changed, by kind. `more` counts the lines that are left out, `absent` says why nothing could be compared."""

    before: int
    after: int
    figures: tuple[Change, ...] = ()
    provenance: tuple[Change, ...] = ()
    sizes: tuple[Change, ...] = ()
    tensors: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    more: int = 0
    absent: str = ""

    @property
    def is_nothing(self) -> bool:
        """Whether both versions are alike in all that is compared here."""
        return not (
            self.figures or self.provenance or self.sizes or self.tensors or self.config or self.absent
        )


def changes_between(before: Side, after: Side) -> Changes:
    """Return what changed from the stable version to the candidate.

    Figures are those of the candidate's own gates for both, where these measured both in turns; otherwise those that
    each version's gates measured.
    """
    if after.manifest is None or before.manifest is None:
        gone = after if after.manifest is None else before
        return Changes(before.version, after.version, absent=gone.absent.rstrip("."))
    found = compare(before, after)
    figures, sizes, config = [*_figures(before, after)], [*_sizes(found)], [*_config(found)]
    provenance = [
        Change(row.name, row.before, row.after)
        for row in found.facts
        if row.differs and (row.name in _PROVENANCE or row.name.startswith(("tool ", "training's ")))
    ]
    return Changes(
        before.version,
        after.version,
        figures=tuple(figures[:LINES_SHOWN]),
        provenance=tuple(provenance[:LINES_SHOWN]),
        sizes=tuple(sizes[:LINES_SHOWN]),
        tensors=found.tensors[:LINES_SHOWN],
        config=tuple(config[:LINES_SHOWN]),
        more=sum(
            max(len(each) - LINES_SHOWN, 0) for each in (figures, provenance, sizes, found.tensors, config)
        ),
    )


def _figures(before: Side, after: Side) -> Iterator[Change]:
    for name, figure in after.figures.items():
        earlier = after.stable_figures.get(name, before.figures.get(name))
        if earlier is None or earlier.unit != figure.unit or earlier.value == figure.value:
            continue
        better = is_better(name, earlier.value, figure.value)
        effect: Effect = "" if better is None else "better" if better else "worse"
        yield Change(name, earlier.text, figure.text, figure.change_since(earlier), effect)


def _sizes(found: VersionComparison) -> Iterator[Change]:
    whole = next((row for row in found.facts if row.name == "size of the files"), None)
    if whole is not None and whole.differs:
        yield Change("all files", whole.before, whole.after)
    for row in found.files:
        if row.kind == "same" or row.before_bytes == row.after_bytes:
            continue
        left, right = row.before_bytes, row.after_bytes
        by = ""
        if left is not None and right is not None:
            by = f"{'+' if right > left else '−'}{wording.size(abs(right - left))}"
        yield Change(
            row.path,
            "" if left is None else wording.size(left),
            "" if right is None else wording.size(right),
            by,
        )


def _config(found: VersionComparison) -> Iterator[str]:
    for name, lines in found.configs.items():
        for line in lines:
            if line.kind in ("gone", "new"):
                sign = "−" if line.kind == "gone" else "+"
                where = f"{name}: " if len(found.configs) > 1 else ""
                yield f"{sign} {where}{line.text.strip()}"
