"""Prints the JSON schema of release files, or checks release files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from slipway_core.errors import SpecError
from slipway_core.spec.json_schema import release_file_schema
from slipway_core.spec.release_file import load_release_spec
from slipway_core.written_numbers import counted


def main(arguments: list[str] | None = None) -> int:
    """Print the JSON schema, or check the release files that are given; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m slipway_core.spec", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="release files to check")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a release file")
    options = parser.parse_args(arguments)
    if not options.schema and not options.files:
        parser.error("give release files to check, or --schema")
    if options.schema:
        print(json.dumps(release_file_schema(), indent=2))
    failures = 0
    for path in options.files:
        try:
            spec = load_release_spec(path)
        except SpecError as error:
            failures += 1
            print(error, file=sys.stderr)
        else:
            print(f"{path}: {spec.model}, {counted(len(spec.rollout.steps), 'step')}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
