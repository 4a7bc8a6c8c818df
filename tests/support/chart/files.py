"""The chart's own files, read without Helm."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "include" / "charts" / "slipway"
VALUES, SCHEMA = CHART / "values.yaml", CHART / "values.schema.json"
# Values files that are tested, and with the first of which include/manifests is rendered.
VALUES_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
_KEY = re.compile(r"^( *)([\w.-]+):")


def chart_digest() -> str:
    """Return the SHA-256, in hex, of every file that decides what the chart renders."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file() and path.suffix != ".md"):
        digest.update(f"{path.relative_to(CHART).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def default_values() -> dict[str, Any]:
    """Return the chart's values as they are where nobody sets any."""
    values: dict[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    return values


def schema() -> dict[str, Any]:
    """Return the JSON schema of the values."""
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found


def properties(part: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every property of a schema, also those of its objects and of the items of its lists, by dotted path."""
    for name, found in part.get("properties", {}).items():
        yield ".".join((*path, name)), found
        yield from properties(found, (*path, name))
        yield from properties(found.get("items", {}), (*path, f"{name}[]"))


def comments() -> dict[str, str]:
    """Return the comment above each key of values.yaml, on one line, by dotted path."""
    found: dict[str, str] = {}
    above: list[str] = []
    parents: list[str] = []
    for line in VALUES.read_text(encoding="utf-8").splitlines():
        if line.strip().startswith("#"):
            above.append(line.strip().removeprefix("#").strip())
        elif (key := _KEY.match(line)) is not None:
            parents = [*parents[: len(key[1]) // 2], key[2]]
            found[".".join(parents)] = " ".join(above)
            above = []
        else:
            above = []
    return found
