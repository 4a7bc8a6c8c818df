"""JSON merge patch (RFC 7386): the one kind of patch that the emulator applies."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any


def merge_patched(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` laid over it: objects merge key by key, `null` removes, all else replaces.

    Neither argument is changed, and the result shares nothing with them.
    """
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    merged = deepcopy(dict(target)) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return merged
