"""Acts on what is measured of published versions: findings, tuning, benchmarks."""

from __future__ import annotations

from slipway_core.acts.act import Act, Command
from slipway_core.acts.run_name_parts import closed_finding, followed_by, version_or_model
from slipway_core.acts.situation import Availability, Available, Refused, Situation

_NAMED = 8
"""So many of a model's versions a refusal names, the newest ones."""


def _close_finding(now: Situation) -> Availability:
    if now.findings is not None and not now.findings:
        return Refused(f"{now.model} has no open findings.", now.look)
    return Available()


def _measure(now: Situation) -> Availability:
    """Return whether a version can be measured: one that was published, or without a number the one that is live."""
    if now.line is not None and now.line.files_gone:
        return Refused(f"The files of version {now.version} were deleted.", now.look)
    if now.version is None or _was_released(now, now.version):
        return Available()
    never = f"Version {now.version} of {now.model} was never released"
    others = [
        str(line.version)
        for line in now.document.versions
        if not line.files_gone and not line.rejected_only and not line.unreadable
    ]
    if not others:
        return Refused(f"{never}, and no other version has files.", "slipway list")
    older = len(others) - _NAMED
    rest = f" and {older} older ones" if older > 0 else ""
    return Refused(f"{never}. Versions with files: {', '.join(others[:_NAMED])}{rest}.", now.look)


def _benchmark(now: Situation) -> Availability:
    if now.version is None and now.document.live_version is None:
        return Refused(f"No version of {now.model} is live.", f"slipway benchmark {now.model} --version …")
    return _measure(now)


def _was_released(now: Situation, version: int) -> bool:
    """Return whether a release of a version was ever started, or whether the document is too full to say."""
    from slipway_core.read_model.documents import (
        VERSIONS_LIMIT,
    )  # its classes cost a start of the command too much

    if now.line is not None:
        return not now.line.rejected_only
    versions = now.document.versions
    return len(versions) >= VERSIONS_LIMIT and version < versions[0].version


CLOSE_FINDING = Act(
    name="close_finding",
    title="Close the finding",
    description="Closes a finding about the live version under your name, until a check finds something else.",
    means="start_run",
    workflow="finding",
    required=("model", "finding", "reason"),
    possible=_close_finding,
    run_name=closed_finding,
    command=Command(
        "Close a finding about the live version under your name, until a check finds something else.",
        ('slipway close-finding digits 3-latency -m "new hardware"',),
    ),
)
TUNE = Act(
    name="tune",
    title="Tune",
    description="Searches for faster settings of a published version on staging, and proposes them as a diff.",
    means="start_run",
    workflow="tuning",
    required=("model", "version"),
    possible=_measure,
    run_name=followed_by(version_or_model, "tuning"),
    command=Command(
        "Search for faster settings of a published version on staging, and propose a change of the release file.",
        ("slipway tune digits 3", "slipway tune digits 3 --wait --timeout 1h"),
        waits=False,
        timeout="1h",
    ),
)
BENCHMARK = Act(
    name="benchmark",
    title="Benchmark",
    description="Measures a published version on staging, and reports whether it is still fast enough.",
    means="start_run",
    workflow="benchmark",
    required=("model",),
    optional=("version",),
    possible=_benchmark,
    run_name=followed_by(version_or_model, "benchmark"),
    command=Command(
        "Measure a published version (default: the live one) on staging, and report whether it is still fast enough.",
        ("slipway benchmark digits", "slipway benchmark digits --version 3 --wait --timeout 1h"),
        waits=False,
        timeout="1h",
    ),
)
