"""What was pushed, written down: values for the chart, references for release files, lists of packages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHART_IMAGES = ("guard", "verify")
"""The images that the chart starts; release files name the others."""


def chart_values(registry: str, tag: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the chart's values for its images, pinned by their digests."""
    pinned = {name: digests[name] for name in CHART_IMAGES if name in digests}
    return {"images": {"registry": registry, "tag": tag, "digests": pinned}}


def references(registry: str, tag: str, digests: Mapping[str, str]) -> dict[str, str]:
    """Return each image as a release file names it: by tag for people, by digest for the node."""
    return {name: f"{registry}/{name}:{tag}@{digest}" for name, digest in sorted(digests.items())}


def write_down(
    folder: Path,
    registry: str,
    tag: str,
    digests: Mapping[str, str],
    lists: Mapping[str, Mapping[str, Any]],
) -> list[Path]:
    """Write `values.yaml`, `images.json` and NAME.cdx.json into a folder; return the files.

    :param digests: by image.
    :param lists: CycloneDX documents by image.
    :raises OSError: a file can't be written.
    """
    documents: dict[str, Any] = {
        # JSON is YAML, and needs no library.
        "values.yaml": chart_values(registry, tag, digests),
        "images.json": references(registry, tag, digests),
        **{f"{name}.cdx.json": document for name, document in lists.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return [folder / name for name in documents]
