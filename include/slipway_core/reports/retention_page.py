"""What goes and what stays of the published versions, as one HTML page, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway_core.operations.gc_run import ModelResult, RunPlan, VersionResult
from slipway_core.operations.retention import ModelPlan, VersionPlan
from slipway_core.reports.html_page import render_page

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class _Going:
    """A version that goes; `became` is what came of it, "" before the deletion."""

    plan: VersionPlan
    size: str
    became: str
    is_kept: bool


@dataclass(frozen=True)
class _Model:
    """One model's part of the page."""

    plan: ModelPlan
    going: Sequence[_Going]
    staying: Sequence[tuple[VersionPlan, str]]
    deleted: int


def render_retention_html(
    run: RunPlan, plans: Sequence[ModelPlan], results: Mapping[str, ModelResult], *, is_over: bool
) -> str:
    """Return the page of a run of `repository_gc`.

    :param results: what came of the plans, by model.
    :param is_over: the deletion is over: a version without a result was not deleted.
    """
    models = [_model(plan, results.get(plan.model), is_over and not run.dry_run) for plan in plans]
    going = [one for plan in plans for one in plan.with_action("delete")]
    freed = sum(one.size_bytes for result in results.values() for one in result.versions)
    return render_page(
        "retention/page.html.j2",
        run=run,
        models=models,
        versions=len(going),
        size=size_text(sum(one.size_bytes for one in going)),
        freed=size_text(freed),
        is_over=is_over and not run.dry_run,
    )


def size_text(size_bytes: int) -> str:
    """Return a number of bytes as people read it."""
    value = float(size_bytes)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def _model(plan: ModelPlan, result: ModelResult | None, is_over: bool) -> _Model:
    became = {} if result is None else {one.version: one for one in result.versions}
    return _Model(
        plan,
        [_going(one, became.get(one.version), is_over) for one in plan.with_action("delete")],
        [(one, size_text(one.size_bytes)) for one in plan.with_action("keep")],
        len(plan.with_action("deleted")),
    )


def _going(one: VersionPlan, result: VersionResult | None, is_over: bool) -> _Going:
    outcome = "not finished: the next run continues" if is_over else ""
    if result is not None:
        outcome = "deleted" if result.outcome == "deleted" else f"kept: {result.why}"
    return _Going(one, size_text(one.size_bytes), outcome, is_kept=outcome not in ("", "deleted"))
