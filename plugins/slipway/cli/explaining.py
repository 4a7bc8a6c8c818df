"""What became of a version, in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.text import Text

from slipway.cli.output import table_of
from slipway.cli.plain import plain
from slipway.cli.server import VersionDocuments
from slipway.cli.words import age, moment, span, styled
from slipway_core.canary.verdict_text import against_words, meaning
from slipway_core.read_model.documents import VersionLine
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.release_view import ReleaseView, StepView
from slipway_core.record.stage_names import stage_name
from slipway_core.reports.data_docs.page import FOLDER, INDEX
from slipway_core.written_numbers import counted

_OUTCOMES = {
    "open": "is being released",
    "promoted": "was promoted: it got all users",
    "rolled_back": "was rolled back: its users were moved back to the stable version",
    "refused": "was refused and goes no further",
    "failed": "failed, which says nothing about the version itself",
    "cancelled": "was stopped before its end",
}
_VERDICTS = ("pass", "fail", "inconclusive")


def explained(
    found: VersionDocuments, now: datetime, *, pages: str, with_log: bool = False
) -> RenderableType:
    """Return the explanation.

    :param pages: the dashboard's address, without a slash at its end.
    :param with_log: every event of the record, too.
    """
    view = found.view
    parts: list[RenderableType] = [Text("\n".join(_summary(view.line, now)))]
    parts += [Text(), Text("Gates and steps", style="bold"), _steps(view)]
    verdict = list(_verdict(found.live, view))
    if verdict:
        parts += [Text(), Text("The canary's verdict", style="bold"), Text("\n".join(verdict))]
    if view.evidence:
        shown = [key for key in view.evidence if with_log or _is_page(key)]
        others = len(view.evidence) - len(shown)
        parts += [
            Text(),
            Text("Evidence", style="bold"),
            *(Text(plain(_address(key, pages))) for key in shown),
        ]
        files = f"and {counted(others, 'more file')}" if shown else counted(others, "data file")
        parts += [Text(f"{files}: --log", style="dim")] if others else []
    if with_log:
        parts += [Text(), Text("Log", style="bold"), _log(view)]
    parts += [Text(), Text(_next(view))]
    return Group(*parts)


def _is_page(key: str) -> bool:
    """Tell whether it is a page for people; of the pages of great-expectations the first, which leads to the others."""
    return key.endswith(f"/{INDEX}" if f"/{FOLDER}" in key else ".html")


def _address(key: str, pages: str) -> str:
    """Return where a person reads a file of the evidence; its key if it does not belong to a version."""
    match key.split("/", 4):
        case ["models", model, version, "evidence", name]:
            return f"{pages}/evidence/{model}/{version}/{quote(name)}"
    return key


def _summary(line: VersionLine, now: datetime) -> Iterator[str]:
    yield plain(f"{line.model} version {line.version} {_OUTCOMES[line.outcome]}.")
    if line.reason:
        yield plain(f"Why: {line.reason}")
    by = f" by {line.triggered_by}" if line.triggered_by else " automatically"
    took = f", took {span(line.seconds)}" if line.seconds is not None else ""
    if line.started_at is not None:
        yield plain(f"Run {line.release_id}, started {moment(line.started_at)}{by}{took}.")
    if line.attempts > 1:
        yield f"This was attempt {line.attempts}."
    for approval in line.approvals:
        yield plain(f"{approval.by} approved before the {approval.before}, {moment(approval.at)}.")
    if line.candidate_requests is not None:
        errors = line.candidate_errors or 0
        sent = counted(line.candidate_requests, "request")
        yield f"Users sent it {sent} in its canary; {errors:,} ended with an error."
    if line.rolled_back_by:
        yield plain(f"Rolled back by {line.rolled_back_by}.")
    if line.weight_0_at is not None:
        yield f"Weight 0 was observed {moment(line.weight_0_at)}, {age(line.weight_0_at, now)} ago."
    if line.drained:
        yield plain(line.drained)
    if line.rejection is not None:
        yield plain(f"It was {line.rejection.sentence}, and is blocked until `slipway unreject`.")
    if line.files_gone:
        yield "Its files were deleted. The number cannot be used again."


def _steps(view: ReleaseView) -> RenderableType:
    rows = [
        [
            _name(step),
            styled(_colour(step), (step.outcome or step.state).replace("_", " ")),
            _took(step),
            step.reason,
        ]
        for step in view.steps
        if step.state != "skipped"
    ]
    return table_of(("STEP", "OUTCOME", "TOOK", "reason"), rows, right=("TOOK",))


def _name(step: StepView) -> str:
    return stage_name(step.name) + (f" {step.weight} %" if step.weight is not None else "")


def _colour(step: StepView) -> str:
    return {"done": "pass", "failed": "fail", "here": "open"}.get(step.state, "")


def _took(step: StepView) -> str:
    return "" if step.seconds is None else span(step.seconds)


def _verdict(live: LiveDocument | None, view: ReleaseView) -> Iterator[str]:
    if live is not None and live.release_id == view.line.release_id and live.windows:
        window = live.windows[-1]
        status = live.verdict if live.verdict in _VERDICTS else window.status
        yield plain(f"{status.upper()}. {live.reason or window.reason}")
        yield meaning(status)
        yield plain(against_words(window.evidence, window.total_evidence, window.threshold)) + "."
        return
    said = [
        line for line in view.log if line.kind == "window_judged" and line.release_id == view.line.release_id
    ]
    if said:
        yield plain(said[-1].sentence)


def _log(view: ReleaseView) -> RenderableType:
    rows = [[moment(line.at), line.sentence] for line in view.log]
    if view.log_is_cut:
        rows.insert(0, ["…", "older lines are not shown"])
    return table_of(("AT", "reason"), rows)


def _next(view: ReleaseView) -> str:
    line, model, version = view.line, view.line.model, view.line.version
    if line.outcome == "open":
        return f"Next: slipway get {model} -w"
    if line.rejection is not None:
        return f'Next: slipway unreject {model} {version} --reason "…" lets it be released again'
    if line.outcome in ("failed", "cancelled"):
        return f"Next: slipway release {model} {version}, once the cause is fixed; slipway logs {model} {version}"
    return f"Next: slipway get {model}"
