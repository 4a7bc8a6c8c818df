"""What a scorer's pod is given: one NumPy archive of inputs, labels and both versions' answers, without objects."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.scores import Array
from slipway_rules.scoring import GIVEN_LIMIT_BYTES, Given


def pack_given(golden: GoldenSet, answers: Mapping[str, Array], stable: Mapping[str, Array] | None) -> bytes:
    """Return the archive; equal values make equal bytes.

    :raises GoldenSetError: they are larger than a pod is given.
    """
    by_row = golden.columns()
    inputs = {name: by_row.get(name, values) for name, values in golden.inputs.items()}
    given = Given(inputs, golden.labels if golden.has_labels else None, answers, stable)
    plain: dict[str, Any] = {name: _plain(values) for name, values in given.arrays().items()}
    size = sum(values.nbytes for values in plain.values())
    if size > GIVEN_LIMIT_BYTES:
        raise GoldenSetError(
            "the golden set and its answers are too large for a scorer",
            expected=f"at most {GIVEN_LIMIT_BYTES} bytes in all",
            found=f"{size} bytes",
            remedy="Take fewer rows: a gate needs hundreds of them, not all.",
        )
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **plain)
    return buffer.getvalue()


def _plain(values: Array) -> Array:
    """Return texts as NumPy's own texts; everything else as it is."""
    if values.dtype.kind != "O":
        return values
    texts = [
        one.decode(errors="replace") if isinstance(one, bytes) else str(one or "")
        for one in values.reshape(-1)
    ]
    return np.asarray(texts, dtype=np.str_).reshape(values.shape)
