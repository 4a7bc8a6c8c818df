"""A model as a tree: what is live, the release under way with its steps and its evidence, the last versions."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from slipway.cli.output import fields_of
from slipway.cli.plain import plain
from slipway.cli.server import VersionDocuments
from slipway.cli.words import age, in_flight, moment, percent, span, styled
from slipway_core.canary.verdict_text import against_words
from slipway_core.read_model.documents import ModelDocument, OpenRelease, VersionLine
from slipway_core.read_model.live import LiveDocument, LiveSample
from slipway_core.read_model.release_view import StepView
from slipway_core.record.stage_names import stage_name
from slipway_core.written_numbers import counted, number

_SIGNS = {
    "done": ("✔", "green"),
    "here": ("▶", "cyan"),
    "ahead": ("○", "dim"),
    "skipped": ("–", "dim"),
    "failed": ("✖", "red"),
}
_VERSIONS_SHOWN = 5


def tree_of(
    document: ModelDocument,
    release: VersionDocuments | None,
    now: datetime,
    *,
    versions: int = _VERSIONS_SHOWN,
) -> RenderableType:
    """Return the tree.

    :param release: the release under way, else the newest one that is over; None: there is none.
    :param now: when the documents were read.
    :param versions: how many of the newest versions are listed.
    """
    root = Tree(Text(document.model, style="bold"), guide_style="dim")
    if release is not None:
        _add_release(root, document, release, now)
    _add_versions(root, document, now, versions)
    return Group(_head(document, now, release), Text(), root)


def _head(document: ModelDocument, now: datetime, shown: VersionDocuments | None) -> RenderableType:
    release = document.open_release
    if release is not None and shown is not None and shown.view.line.release_id == release.release_id:
        release = shown.view.open_now  # read from the record itself, the newer one
    watched = None if shown is None else _of_this(shown.live, release)
    if release is not None and watched is not None and watched.weight_observed is not None:
        # The watch's document is the newer one.
        release = release.model_copy(update={"weight_observed": watched.weight_observed})
    live, since = document.live_version, age(document.live_since, now)
    return fields_of(
        {
            "Model": document.model,
            "Live": "no version"
            if live is None
            else f"version {live}" + (f", since {since}" if since else ""),
            "Released by": document.live_promoted_for,
            "Before": "" if document.previous_version is None else f"version {document.previous_version}",
            "In flight": in_flight(release) or "nothing",
            "Frozen": "; ".join(
                f"by {one.by} until {moment(one.until)}: {one.reason}"
                for one in document.freezes
                if one.until > now
            ),
            "Findings": "; ".join(f"{one.name}: {one.summary}" for one in document.findings),
        }
    )


def _add_release(root: Tree, document: ModelDocument, release: VersionDocuments, now: datetime) -> None:
    view, line = release.view, release.view.line
    title = Text.assemble(
        ("● " if view.open_now else "  ", "cyan"),
        (f"version {line.version}  ", "bold"),
        styled(line.outcome, "releasing" if line.outcome == "open" else None),
        "  ",
        (_run(line, now), "dim"),
    )
    branch = root.add(title)
    if line.reason and line.outcome != "open":
        branch.add(styled(line.outcome, line.reason))
    live = _of_this(release.live, view.open_now)
    if view.open_now is not None and view.open_now.weight_intended is not None:
        _add_revisions(branch, document, view.open_now, live)
    steps = branch.add(Text("steps"))
    for step in view.steps:
        steps.add(_step(step, live))
    if live is not None and live.weights:
        _add_verdict(branch, live, now)
    if view.open_now is not None:
        _add_waits(branch, view.open_now, live, now)


def _run(line: VersionLine, now: datetime) -> str:
    by = f", started by {line.triggered_by}" if line.triggered_by else ""
    since = f", {age(line.started_at, now)} ago" if line.started_at else ""
    return plain(f"run {line.release_id}{by}{since}")


def _of_this(live: LiveDocument | None, release: OpenRelease | None) -> LiveDocument | None:
    """Return the watch's document, unless it is that of an earlier release."""
    if live is None or release is None or live.release_id != release.release_id:
        return None
    return live


def _add_revisions(
    branch: Tree, document: ModelDocument, release: OpenRelease, live: LiveDocument | None
) -> None:
    intended, observed = release.weight_intended, release.weight_observed
    if live is not None and live.weight_observed is not None:
        intended, observed = live.weight_intended, live.weight_observed
    window = live.windows[-1] if live is not None and live.windows else None
    node = branch.add(Text("revisions"))
    node.add(
        _revision("candidate", release.version, intended, observed, window.candidate if window else None)
    )
    stable = release.stable_version or document.live_version
    if stable is not None:
        node.add(
            _revision("stable", stable, _rest(intended), _rest(observed), window.stable if window else None)
        )


def _rest(weight: int | None) -> int | None:
    return None if weight is None else 100 - weight


def _revision(
    role: str, version: int, intended: int | None, observed: int | None, sample: LiveSample | None
) -> Text:
    agrees = intended == observed
    return Text.assemble(
        f"{role:<10}version {version:<5}",
        f"set {percent(intended)}".ljust(12),
        (f"observed {percent(observed)}", "" if agrees else "yellow"),
        (f"   {_sample(sample)}" if sample is not None else "", "dim"),
    )


def _sample(sample: LiveSample) -> str:
    parts = [f"in the last window {counted(sample.requests, 'request')}, {counted(sample.errors, 'error')}"]
    if sample.p99_ms is not None:
        parts.append(f"p99 {'above ' if sample.p99_is_above else ''}{number(sample.p99_ms)} ms")
    return ", ".join(parts)


def _step(step: StepView, live: LiveDocument | None) -> Text:
    sign, style = _SIGNS[step.state]
    name = stage_name(step.name) + (f" {step.weight} %" if step.weight is not None else "")
    text = Text.assemble((f"{sign} ", style), (plain(name), "bold" if step.state == "here" else ""))
    if step.state == "here":
        text.append("  ← here", style="cyan")
        if live is not None and step.weight is not None:
            most = f", at most {span(live.max_bake_s)}" if live.max_bake_s > live.step_bake_s else ""
            text.append(f"  {span(live.step_elapsed_s)} of {span(live.step_bake_s)}{most}", style="dim")
    elif step.seconds is not None and step.state != "skipped":
        text.append(f"  {span(step.seconds)}", style="dim")
    if step.state == "failed" and step.reason:
        text.append(f"  {plain(step.reason)}", style="red")
    return text


def _add_verdict(branch: Tree, live: LiveDocument, now: datetime) -> None:
    node = branch.add(
        Text.assemble("verdict  ", styled(live.verdict or "inconclusive"), f"  {plain(live.reason)}")
    )
    if live.windows:
        window = live.windows[-1]
        node.add(Text(plain(against_words(window.evidence, window.total_evidence, window.threshold))))
        if window.no_worse_threshold:
            node.add(
                Text(
                    f"Proof of being as good: {number(window.no_worse)} of {number(window.no_worse_threshold)} needed"
                )
            )
        if window.no_data:
            node.add(Text(f"no data in the last window, {age(window.at, now)} ago", style="yellow"))
    node.add(Text(_exposure(live), style="dim"))


def _exposure(live: LiveDocument) -> str:
    used = live.exposure
    requests = f"{used.requests:,}" + (
        "" if used.max_requests is None else f" of at most {used.max_requests:,}"
    )
    errors = f"{used.errors:,}" + ("" if used.max_errors is None else f" of at most {used.max_errors:,}")
    return f"Users have sent the candidate {requests} requests; {errors} ended with an error"


def _add_waits(branch: Tree, release: OpenRelease, live: LiveDocument | None, now: datetime) -> None:
    paused = live.paused if live is not None else release.paused
    if release.waits_for_approval:
        branch.add(Text(f"needs approval before the {plain(release.waits_for_approval)}", style="yellow"))
    if paused:
        branch.add(Text(f"paused: {plain(paused)}", style="yellow"))
    if release.held:
        branch.add(Text(f"held: {plain(release.held)}", style="yellow"))
    if live is not None and live.waiting:
        branch.add(Text(plain(live.waiting), style="yellow"))
    if live is not None and live.decision:
        branch.add(Text(f"decided: {plain(live.decision)}"))
    elif sentence := next_decision(live, now):
        branch.add(Text(sentence))


def next_decision(live: LiveDocument | None, now: datetime) -> str:
    """Write when the step can end at the earliest; "" where it has no end now."""
    if live is None or live.next_decision_at is None:
        return ""
    left = (live.next_decision_at - now).total_seconds()
    return f"next decision in {span(left)}" if left >= 1 else "next decision after this window"


def _add_versions(root: Tree, document: ModelDocument, now: datetime, most: int) -> None:
    shown = document.versions[:most]
    if not shown:
        return
    more = len(document.versions) - len(shown)
    node = root.add(
        Text("versions" + (f" (the newest {len(shown)} of {len(document.versions)})" if more else ""))
    )
    for line in shown:
        node.add(_version(line, document, now))


def _version(line: VersionLine, document: ModelDocument, now: datetime) -> Text:
    marks = [
        word
        for word, is_so in (
            ("live", line.version == document.live_version),
            ("rejected", line.rejection is not None),
            ("pinned", line.pinned),
            ("files deleted", line.files_gone),
        )
        if is_so
    ]
    ended = line.finished_at or line.started_at
    return Text.assemble(
        f"{line.version:<5}",
        styled(line.outcome),
        " " * max(12 - len(line.outcome), 1),
        (f"{', '.join(marks)}  " if marks else "", "bold"),
        (f"{age(ended, now)} ago  " if ended else "", "dim"),
        plain(line.reason),
    )
