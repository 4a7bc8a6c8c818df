"""Replays recorded windows through the judge of a canary and prints every verdict again.

    python -m slipway_core.canary WINDOWS.jsonl [--policy FILE] [--explain]

WINDOWS.jsonl ("-": standard input) holds one JSON object a line; keys beside these are ignored:

    {"policy": {...}}                         first line only, may be left out: an AnalysisPolicy
    {"step": {"weight": 5, "bake_s": 60}}     a step of the canary begins
    {"window": {"seconds": 10, "stable": SAMPLE, "candidate": SAMPLE}}, or the inner object alone;
                                              "source": "replay" where golden requests were replayed
    {"no_data": "why"}                        a window in which the metrics source could not be read
    {"coverage": {"not_seen": ["latency"]}}   what the source of the windows that follow cannot see

    SAMPLE: {"requests": 950, "errors": 4, "latency_buckets": {"5.0": 900, "10.0": 45, "inf": 5}}

Standard output gets one verdict a line, as JSON or, with --explain, in words. The exit code is that of the
last verdict: 0 pass, 1 fail, 3 inconclusive; 2 says that the input cannot be used (line, what was expected
and what was found are on standard error), 141 that nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from slipway_core.canary.recordings import ReplayError, read_policy, replay
from slipway_core.canary.verdict import Verdict
from slipway_core.canary.verdict_text import conclusion, explained, heading
from slipway_core.errors import SlipwayError

EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
_BAD_INPUT, _NOBODY_READS = 2, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _print_verdicts(options)
    except SlipwayError as error:
        print(error, file=sys.stderr)
        return _BAD_INPUT
    except BrokenPipeError:
        # Python flushes standard output once more at its end; that must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS


def _print_verdicts(options: argparse.Namespace) -> int:
    source, lines = _lines_of(options.windows)
    policy = None if options.policy is None else read_policy(_text_of(options.policy), options.policy.name)
    seen = no_data = 0
    last: Verdict | None = None
    for used, verdict in replay(lines, source, policy):
        seen, no_data = seen + 1, no_data + verdict.no_data
        if not options.explain:
            print(json.dumps(verdict.to_dict()), flush=True)
        else:
            if last is None:
                print(heading(used), flush=True)
            print(explained(seen, verdict, last), flush=True)
        last = verdict
    if last is None:
        raise ReplayError(f"{source} holds no windows", expected="at least one", found="no window to judge")
    if options.explain:
        print(conclusion(last, seen, no_data), flush=True)
    return EXIT_CODES[last.status]


def _parser() -> argparse.ArgumentParser:
    what, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m slipway_core.canary",
        description=what,
        epilog=details.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("windows", metavar="WINDOWS.jsonl", help='recorded windows; "-" reads standard input')
    parser.add_argument(
        "--policy",
        metavar="FILE",
        type=Path,
        help="YAML or JSON with the keys of an AnalysisPolicy, or a release file (its rollout.analysis); "
        "stands above a policy in the first line",
    )
    parser.add_argument("--explain", action="store_true", help="say each verdict in words")
    return parser


def _lines_of(windows: str) -> tuple[str, Iterable[str]]:
    """Return what errors call the input, and its lines; those of standard input as they come."""
    if windows == "-":
        # Bytes that are not UTF-8 then make a line that is not JSON, and the error names that line.
        return "standard input", io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    return Path(windows).name, _text_of(Path(windows)).split("\n")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(
            f"{path} cannot be read",
            expected="a readable UTF-8 text file",
            found=getattr(error, "strerror", None) or str(error),
            remedy="check the path, its permissions and its encoding",
        ) from error


if __name__ == "__main__":
    sys.exit(main())
