"""A container engine that builds and pushes nothing: a program that notes how it was called."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

PROGRAM = """import hashlib, json, sys
from pathlib import Path

HOME = Path({home!r})
words = sys.argv[1:]
with (HOME / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
failing = (HOME / "failing").read_text().split() if (HOME / "failing").exists() else []
if any(word in one for word in failing for one in words):
    print("no space left on device", file=sys.stderr)
    sys.exit(125)
digest = "sha256:" + hashlib.sha256(words[-1].encode()).hexdigest()
if words[0] == "run":
    print((HOME / "packages").read_text())
elif words[0] == "from":
    print("working-container")
elif words[0] == "push" and "--digestfile" in words:
    Path(words[words.index("--digestfile") + 1]).write_text((HOME / "digest").read_text() or digest)
elif words[:2] == ["image", "inspect"]:
    repository = words[-1].rpartition(":")[0]
    print(json.dumps(["elsewhere/other@sha256:" + "1" * 64, f"{{repository}}@{{digest}}"]))
"""


class FakeEngine:
    """A program of one of the engines' names, in a folder of its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.program = folder / kind
        self._home = folder
        source = folder / "engine.py"
        source.write_text(PROGRAM.format(home=str(folder)), encoding="utf-8")
        # An interpreter's path in a first line may have no space.
        command = shlex.join([sys.executable, str(source)])
        self.program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        self.program.chmod(0o755)
        self.says("digest", "")
        self.packages(numpy="2.3.1", boto3="1.40.0")

    def says(self, what: str, text: str) -> None:
        """Set the digest of every push, or the words of calls that fail."""
        (self._home / what).write_text(text, encoding="utf-8")

    def packages(self, **versions: str) -> None:
        """Set the packages that an image's Python has."""
        found = {
            name: f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
            for name, version in versions.items()
        }
        self.says("packages", json.dumps(found))

    def calls(self) -> list[list[str]]:
        """Return the words of each call."""
        file = self._home / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
