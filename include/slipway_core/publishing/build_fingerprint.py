"""The fingerprint of how the release file says to make a version: a later release sees whether it says the same.

Engines differ from build to build, so a version that is published cannot be made once more and compared. It can be
taken as it is where it would be made of the same files in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slipway_core.bucket_layout import is_source_file
from slipway_core.intake import ReadyFile
from slipway_core.publishing.manifest import GOLDEN_FILE, FileEntry, Provenance
from slipway_core.spec.conversion.conversion import OPTIONAL
from slipway_core.spec.pods.settings import PodSettings
from slipway_core.spec.release_file import ReleaseSpec

RECIPE_FILE = "recipe.json"

# Where it is made, within which limits, and what it is checked against: none of this changes what is made.
_AROUND = frozenset({*PodSettings.model_fields, "image", "parity", "memory_mib", "timing_cache", OPTIONAL})


def recipe_of(spec: ReleaseSpec, training_config: bytes | None = None) -> dict[str, Any]:
    """Return what decides about the bytes of a version beside its source: the release file as it is written.

    `training_config` is the config.pbtxt that training left beside a model of one file.
    """
    written = spec.model_dump(mode="json", exclude_unset=True, include={"source", "conversion", "serving"})
    conversion = _inner(written.get("conversion", {}))
    if "variants" in conversion:
        conversion["variants"] = {name: _inner(keys) for name, keys in conversion["variants"].items()}
    # The servers' hardware is not part of the configuration.
    serving = {key: value for key, value in written.get("serving", {}).items() if key != "hardware"}
    base = None if training_config is None else FileEntry.of(training_config).sha256
    return {"source": written["source"], "conversion": conversion, "serving": serving, "config_sha256": base}


def recipe_bytes(spec: ReleaseSpec, training_config: bytes | None = None) -> bytes:
    """Return the recipe as UTF-8 JSON; equal recipes give equal bytes."""
    recipe = recipe_of(spec, training_config)
    return json.dumps(recipe, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def other_files(
    source: Provenance,
    spec: ReleaseSpec,
    ready: ReadyFile,
    listed: Mapping[str, int],
    sha256: Callable[[str], str],
) -> list[str]:
    """Return the names of files that are not what a version was made of; empty if all are.

    `listed` has the size in bytes of what lies in the version's folder under incoming/, by name. `sha256` tells what
    a file there is; it is asked only where presence and size tell no difference.
    """
    wanted = {*spec.required_files(), *ready.files}
    if spec.source.is_folder:
        below = spec.source.location
        wanted |= {name for name in listed if name.startswith(below) and is_source_file(name)}
    made_of = dict(source.files)
    if GOLDEN_FILE not in wanted:
        # The golden set is listed under this name too, whatever training calls it.
        made_of.pop(GOLDEN_FILE, None)
    known = {name: entry for name, entry in made_of.items() if entry.size_bytes == listed.get(name)}
    return [
        name
        for name in sorted(wanted | made_of.keys())
        if name not in known or known[name].sha256 != sha256(name)
    ]


def _inner(conversion: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in conversion.items() if key not in _AROUND}
