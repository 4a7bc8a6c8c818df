"""Writes the CloudFormation templates of Slipway's infrastructure on AWS; nothing is sent to AWS.

python -m slipway_infrastructure [--to FOLDER] [STACK …]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slipway_infrastructure.stacks import STACKS, write


def main(arguments: list[str] | None = None) -> int:
    """Write what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m slipway_infrastructure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"Stacks, in the order in which you deploy them: {', '.join(STACKS)}.",
    )
    parser.add_argument(
        "stacks", nargs="*", metavar="STACK", help="the stacks to write a template of (all of them)"
    )
    parser.add_argument(
        "--to", type=Path, default=Path("dist/infrastructure"), help="the folder to write to (%(default)s)"
    )
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.stacks if name not in STACKS]:
        parser.error(f"no stack is named {unknown[0]!r}; the stacks are {', '.join(STACKS)}")
    try:
        files = write(given.to, given.stacks or list(STACKS))
    except (OSError, ValueError) as error:
        print(f"the templates could not be written: {error}", file=sys.stderr)
        return 1
    for file in files:
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
