#!/usr/bin/env python3
"""Scores a model's answers to its golden set with a scorer of the user's own.

The scorer is a Python file with a function `score(inputs, labels, answers, stable)`, which returns a number for each
golden row by name, and, where a figure is no mean of these, a function `figures(scores)`, which is called again for the
bootstrap over rows. It runs in a separate process, within limits of time and memory and without this program's keys
for S3. Writes `scores.npz` and, last, `result.json` under the destination.

Exit codes: 0 done; 2 wrong usage; 3 the scorer or what it is given is bad; 75 try again later (S3 does not answer,
time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.program.arguments import new_parser, positive, s3_url, share, whole
from slipway_pod.program.limits import OUT_OF_MEMORY
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.scratch import scratch_folder
from slipway_pod.program.software import tool_versions
from slipway_pod.program.subprograms import Ended, TooMuchOutputError, run_program
from slipway_pod.scoring.child import FIGURES
from slipway_pod.storage.s3 import Store
from slipway_rules.scoring import SCORES_FILE, SCORES_LIMIT_BYTES

PACKAGES = ("numpy",)
FIGURES_LIMIT_BYTES = 2**20
OUTPUT_CHARACTERS = 4 * 2**20
WRONG_SCORER = 3
# Of the time limit, for the resampling; the rest is the scorer's own.
RESAMPLE_SHARE = 0.3
SCORER_REMEDY = "correct the scorer in the release file's folder, and start the release again"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = new_parser(__doc__)
    add = parser.add_argument
    add(
        "--given",
        required=True,
        type=s3_url,
        metavar="URL",
        help="inputs, labels and answers, s3://BUCKET/….npz",
    )
    add("--given-sha256", required=True, metavar="HEX", help="its digest")
    add("--scorer", required=True, type=s3_url, metavar="URL", help="the scorer, s3://BUCKET/….py")
    add("--scorer-sha256", required=True, metavar="HEX", help="its digest")
    add("--rows", required=True, type=whole, metavar="N", help="golden rows")
    add("--confidence", type=share, default=0.95, metavar="X", help="of the intervals (default: %(default)s)")
    add("--timeout-s", type=positive, default=600.0, metavar="S", help="of the scorer (default: %(default)s)")
    add("--memory-mib", type=whole, default=1024, metavar="N", help="of the scorer (default: %(default)s)")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    return parser.parse_args(argv)


def work(options: argparse.Namespace, store: Store, result: dict[str, Any]) -> None:
    """Score, and fill in the result."""
    with scratch_folder("score-") as folder:
        given, scorer, made = folder / "given.npz", folder / "scorer.py", folder / "made"
        made.mkdir()
        fetch_given(store, options.given, options.given_sha256, given)
        fetch_given(store, options.scorer, options.scorer_sha256, scorer)
        result["given_sha256"], result["rows"] = options.given_sha256, options.rows
        say("score", f"{options.rows} rows with {options.scorer}")
        run_scorer(options, given, scorer, made)
        figures = made / FIGURES
        require_small(made / SCORES_FILE, SCORES_LIMIT_BYTES)
        require_small(figures, FIGURES_LIMIT_BYTES)
        result["figures"] = json.loads(figures.read_text())
        result["scores"] = store.upload(made / SCORES_FILE, f"{options.destination}/{SCORES_FILE}")


def fetch_given(store: Store, url: str, sha256: str, target: Path) -> None:
    """Download a file that must have this digest."""
    store.download(url, target)
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    if found != sha256:
        remedy = "run the validation again: it writes a new file"
        raise PodError(
            "TransientError", f"{url} has changed", expected=f"SHA-256 {sha256}", found=found, remedy=remedy
        )


def run_scorer(options: argparse.Namespace, given: Path, scorer: Path, made: Path) -> None:
    """Run the scorer to its end, in a process that has no keys.

    :raises PodError: it is wrong, took too long or too much memory, or crashed.
    """
    command = [sys.executable, "-P", "-m", "slipway_pod.scoring.child", str(given), str(scorer)]
    command += [
        str(options.rows),
        str(options.confidence),
        str(RESAMPLE_SHARE * options.timeout_s),
        str(made),
    ]
    try:
        ended = run_program(
            command,
            options.timeout_s,
            environment={"PYTHONPATH": str(Path(__file__).parent)},
            memory_mib=options.memory_mib,
            echo=True,
            most_characters=OUTPUT_CHARACTERS,
        )
    except TooMuchOutputError:
        raise PodError(
            "UserError",
            "The scorer printed more than it may, and was ended",
            expected=f"at most {OUTPUT_CHARACTERS} characters",
            found="more",
            remedy="print less: put results for single rows into the scores that it returns",
        ) from None
    except TimeoutError:
        raise PodError(
            "UserError",
            "The scorer did not end in time",
            expected=f"an end within {options.timeout_s:g} s",
            found="still at work, and ended",
            remedy="make it faster, take fewer golden rows, or raise validation.scoring.timeout_s",
        ) from None
    if ended.code != 0:
        raise scorer_error(ended, options.memory_mib)


def scorer_error(ended: Ended, memory_mib: int) -> PodError:
    """Return the error for a scorer that failed, with the last line that it printed."""
    last = (list(ended.lines) or ["it printed nothing"])[-1][:300]
    if any(OUT_OF_MEMORY.search(line) for line in ended.lines[-20:]):
        remedy = "take fewer golden rows, or raise validation.scoring.resources.memory"
        expected = f"at most {memory_mib} MiB"
        return PodError(
            "UserError",
            "The scorer wanted more memory than it may have",
            expected=expected,
            found=last,
            remedy=remedy,
        )
    if ended.code == WRONG_SCORER:
        return PodError(
            "UserError", "The scorer failed", expected="scores by row", found=last, remedy=SCORER_REMEDY
        )
    found = f"exit code {ended.code}: {last}"
    return PodError("UserError", "The scorer ended its process", found=found, remedy=SCORER_REMEDY)


def require_small(path: Path, limit_bytes: int) -> None:
    """Raise PodError unless the scorer left a file of at most that size."""
    size = path.stat().st_size if path.is_file() and not path.is_symlink() else None
    if size is None or size > limit_bytes:
        found = "none" if size is None else f"{size} bytes"
        raise PodError(
            "UserError", f"The scorer's {path.name} is not there or too large",
            expected=f"at most {limit_bytes} bytes", found=found, remedy="return fewer scores by row",
        )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(argv)
    return run_to_result(
        options.destination,
        partial(work, options),
        tools=partial(tool_versions, PACKAGES),
        subject="scoring",
    )


if __name__ == "__main__":
    sys.exit(main())
