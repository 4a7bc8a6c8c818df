"""What is left when the story is over: `report.json` for programs, and a page for the person who watched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slipway_core.record.state import release_report
from slipway_sandbox.demo.chapters import ChapterResult, failed_on_stable
from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.host.files import replace_file

TIMELINE_COLUMNS = 60
_SHADES = " ▁▂▃▄▅▆▇█"
_ASCII_SHADES = " .:-=+*#@"
_OUTCOME_STYLE = {"promoted": "green", "rolled_back": "yellow", "refused": "yellow"}


def report(wall_s: float, results: Sequence[ChapterResult], traffic: Traffic) -> dict[str, Any]:
    """Return the content of `report.json`: wall time in seconds, request counts, an entry for each recorded release."""
    return {
        "wall_s": round(wall_s, 1),
        "traffic": {
            "requests": traffic.last.requests,
            "failed": len(traffic.failures),
            "failed_on_stable": failed_on_stable(results, traffic),
        },
        "releases": [release_report(one.state) for one in results if one.state is not None],
    }


def write_report(path: Path, document: Mapping[str, Any]) -> None:
    """Write the report whole or not at all."""
    replace_file(path, json.dumps(document, indent=2) + "\n")


def print_summary(console: Console, document: Mapping[str, Any], traffic: Traffic, report_path: Path) -> None:
    """Print releases, canary steps, what clients saw and a timeline; plain ASCII where the output is no terminal."""
    plain = not console.is_terminal or console.options.ascii_only
    console.print()
    console.print(_releases_table(document["releases"], plain))
    if any(_canary_of(entry).get("steps") for entry in document["releases"]):
        console.print(_canary_table(document["releases"], plain))
    for line in [*_reason_lines(document["releases"]), *_rollback_lines(document["releases"])]:
        console.print(_writable(line, plain), highlight=False, markup=False, soft_wrap=True)
    console.print()
    for line in _traffic_lines(document["traffic"], traffic):
        console.print(line, highlight=False, soft_wrap=True)
    for line in timeline(traffic, plain=plain):
        console.print(line, highlight=False, markup=False, no_wrap=True, crop=False)
    console.print()
    console.print(
        f"{document['wall_s']:.0f} s in all. Report: {report_path}", highlight=False, soft_wrap=True
    )


def timeline(traffic: Traffic, *, plain: bool, columns: int = TIMELINE_COLUMNS) -> list[str]:
    """Draw each version's share of the good answers over time, a line a version, and a line of failures if any.

    A column is one and the same stretch of time in every line; the darker, the larger the share.
    """
    if len(traffic.snapshots) < 2:
        return []
    begin, end = traffic.snapshots[0].at, traffic.snapshots[-1].at
    columns = max(1, min(columns, len(traffic.snapshots) - 1))
    width_s = max(end - begin, 1e-9) / columns
    versions = sorted(traffic.last.answered_by, key=_as_number)
    answers: dict[str, list[int]] = {version: [0] * columns for version in versions}
    for before, after in zip(traffic.snapshots, traffic.snapshots[1:], strict=False):
        column = min(columns - 1, int((after.at - begin) / width_s))
        for version in versions:
            answers[version][column] += after.answered_by.get(version, 0) - before.answered_by.get(version, 0)
    totals = [sum(answers[version][column] for version in versions) for column in range(columns)]
    shades = _ASCII_SHADES if plain else _SHADES
    lines = [f"  version {version:>2} |{_shaded(answers[version], totals, shades)}|" for version in versions]
    failures = [0] * columns
    for failure in traffic.failures:
        failures[min(columns - 1, max(0, int((failure.received - begin) / width_s)))] += 1
    if any(failures):
        lines.append(f"      failed |{''.join('!' if count else ' ' for count in failures)}|")
    lines.append(f"              0 s{f'{end - begin:.0f} s':>{max(columns - 2, 6)}}")
    return lines


def _shaded(counts: Sequence[int], totals: Sequence[int], shades: str) -> str:
    top = len(shades) - 1
    cells = []
    for count, total in zip(counts, totals, strict=True):
        share = count / total if total else 0.0
        # Any share at all is shown: one request in a hundred is what a canary is about.
        cells.append(shades[max(1, round(share * top))] if share > 0 else shades[0])
    return "".join(cells)


def _releases_table(releases: Sequence[Mapping[str, Any]], plain: bool) -> Table:
    """Return a column for each release, a row for its outcome and for the seconds of each stage."""
    table = _table("Releases", plain)
    table.add_column("")
    for entry in releases:
        table.add_column(f"version {entry['version']}", justify="right")
    table.add_row("outcome", *(_styled(entry["outcome"]) for entry in releases))
    names = dict.fromkeys(stage["name"] for entry in releases for stage in entry["stages"])
    for name in names:
        seconds = [
            next((stage["seconds"] for stage in entry["stages"] if stage["name"] == name), None)
            for entry in releases
        ]
        table.add_row(escape(str(name)), *("" if one is None else f"{_number(one):.1f} s" for one in seconds))
    table.add_row("in all", *(f"{_number(entry['seconds']):.1f} s" for entry in releases))
    return table


def _canary_table(releases: Sequence[Mapping[str, Any]], plain: bool) -> Table:
    table = _table("Canaries", plain)
    for title in ("Version", "Weight", "Verdict", "Requests", "Errors", "Seconds"):
        table.add_column(title, justify="left" if title == "Verdict" else "right")
    for entry in releases:
        for step in _canary_of(entry).get("steps") or ():
            table.add_row(
                str(entry["version"]),
                f"{step['weight']} %",
                escape(str(step["verdict"])),
                str(step["candidate_requests"]),
                str(step["candidate_errors"]),
                f"{_number(step['seconds']):.1f}",
            )
    return table


def _table(title: str, plain: bool) -> Table:
    from rich import box

    return Table(title=title, title_justify="left", box=box.ASCII if plain else box.ROUNDED)


def _rollback_lines(releases: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for entry in releases:
        canary = _canary_of(entry)
        seconds = canary.get("seconds_from_first_bad_answer_to_weight_0")
        if entry["outcome"] == "rolled_back" and seconds is not None:
            lines.append(
                f"Version {entry['version']} gave {canary.get('bad_requests_before_rollback')} bad answers; "
                f"{_number(seconds):.1f} s after the first it had no traffic any more."
            )
    return lines


def _traffic_lines(counts: Mapping[str, Any], traffic: Traffic) -> list[str]:
    last = traffic.last
    protocols = ", ".join(f"{count} {name}" for name, count in sorted(last.by_protocol.items()))
    answers = ", ".join(
        f"version {version}: {last.answered_by[version]}"
        for version in sorted(last.answered_by, key=_as_number)
    )
    return [
        f"Clients sent {counts['requests']} requests ({protocols}); {counts['failed']} failed, "
        f"{counts['failed_on_stable']} of them on the stable version.",
        f"Good answers by {answers}." if answers else "No good answer.",
    ]


def _reason_lines(releases: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"Version {entry['version']} was {str(entry['outcome']).replace('_', ' ')}"
        f"{' by ' + entry['refused_by'] if entry.get('refused_by') else ''}: {entry['reason']}"
        for entry in releases
        if entry.get("reason") and entry["outcome"] != "promoted"
    ]


def _styled(outcome: object) -> str:
    style = _OUTCOME_STYLE.get(str(outcome), "red")
    return f"[{style}]{escape(str(outcome))}[/]"


def _writable(text: str, plain: bool) -> str:
    """Return the text as it is, or with what is beyond ASCII replaced: reasons are written by others."""
    return text.encode("ascii", "replace").decode() if plain else text


def _canary_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return entry.get("canary") or {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _as_number(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdigit() else (1 << 31, version)
