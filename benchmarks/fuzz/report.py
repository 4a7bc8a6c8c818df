"""What a run of the fuzz lane prints, and where it leaves the inputs that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fuzz.measure import FuzzFinding
from benchmarks.fuzz.pool import Outcome

_SHOWN = 400


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a line for each target: inputs, accepted, refused by error class, slowest, growth of its process."""
    lines = [f"{'target':22} {'inputs':>8} {'accepted':>9} {'slowest ms':>11} {'peak MiB':>9}  refused by"]
    inputs = accepted = 0
    refused: Counter[str] = Counter()
    for outcome in sorted(outcomes, key=lambda outcome: outcome.target):
        tally = outcome.tally
        inputs, accepted, refused = (
            inputs + tally.inputs,
            accepted + tally.accepted,
            refused + tally.refused,
        )
        lines.append(
            f"{outcome.target:22} {tally.inputs:8,} {tally.accepted:9,} {tally.slowest_ms:11.0f} "
            f"{tally.peak_mib:9.0f}  {_by_class(tally.refused)}"
        )
    lines.append(f"{'all':22} {inputs:8,} {accepted:9,} {'':11} {'':9}  {_by_class(refused)}")
    return "\n".join(lines)


def save(finding: FuzzFinding, root: Path) -> str:
    """Write the input that failed to a file; return what to print about it."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / f"{finding.target}-{finding.seed}-{finding.index}.txt"
    path.write_text(
        f"# {finding.kind} at {finding.place}: {finding.text}\n"
        f"# python -m benchmarks.fuzz --only {finding.target} --seed {finding.seed} --show {finding.index}\n"
        f"{finding.shown}\n"
    )
    short = finding.shown if len(finding.shown) <= _SHOWN else f"{finding.shown[:_SHOWN]}…"
    what = f"FOUND {finding.target} {finding.index}: {finding.kind} at {finding.place} {finding.text}"
    return f"\n{what}\n  {path}\n  {short}"


def _by_class(refused: Counter[str]) -> str:
    return ", ".join(f"{kind} {times:,}" for kind, times in refused.most_common())
