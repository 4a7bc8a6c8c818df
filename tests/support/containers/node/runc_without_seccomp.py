"""Becomes runc, for a container whose filter of system calls is left out: `PROGRAM ARGUMENT…`.

A runc that was built without libseccomp refuses a container with such a filter instead of running it unfiltered.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(program: str, arguments: list[str]) -> None:
    """Take the filter out of the bundle that is to be run, where there is one, and become runc."""
    if "--bundle" in arguments:
        path = Path(arguments[arguments.index("--bundle") + 1], "config.json")
        specification = json.loads(path.read_text(encoding="utf-8"))
        if specification.get("linux", {}).pop("seccomp", None) is not None:
            path.write_text(json.dumps(specification), encoding="utf-8")
    os.execv(program, [program, *arguments])  # noqa: S606 - a list, no shell


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
