"""Do users' requests, where somebody records them, still look like the golden set?"""

from __future__ import annotations

import numpy as np

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.golden_check import GoldenParts
from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.operations.revalidation.input_drift import (
    LEAST_ROWS,
    Array,
    input_drift,
    rows_of,
)
from slipway_core.operations.revalidation.report import (
    CheckResult,
    differs,
    left_out,
    no_reference,
    passed,
)

# The newest of the newest: what is read is bounded, however much is recorded.
_LISTED_PAGES, _FILES, _FILE_LIMIT_BYTES, _ROWS_LIMIT = 10, 20, 16 * 2**20, 5000


def check_inputs(parts: GoldenParts) -> CheckResult:
    """Hold a sample of the recorded requests against the golden set, input by input.

    :raises SlipwayError: the golden set or the recorded requests could not be read.
    """
    asked = parts.spec.revalidation
    if asked.recorded_requests is None:
        return left_out("inputs", "the release file names no recorded requests")
    whole = parts.golden_set().columns()
    names = set(whole)
    recorded = _sample(parts.store, asked.recorded_requests, names)
    rows = (rows_of(whole), rows_of(recorded))
    if min(rows) < LEAST_ROWS:
        summary = (
            f"{rows[1]} recorded rows below {asked.recorded_requests} and {rows[0]} golden ones are too few"
        )
        return no_reference("inputs", f"{summary}: at least {LEAST_ROWS} of each", rows=rows[1])
    found = input_drift(whole, recorded, asked.input_distance_max)
    far = max(found, key=lambda one: one.statistic)
    summary = (
        f"of {rows[1]} recorded rows the input {far.name!r} is furthest from the golden set: Kolmogorov-Smirnov "
        f"{far.statistic:.3f}, at most {asked.input_distance_max:g}"
    )
    numbers = {one.name: one.statistic for one in found}
    drifted = [one for one in found if one.is_drift]
    if drifted:
        return differs("inputs", summary, (f"input {one.name}" for one in drifted), rows=rows[1], **numbers)
    return passed("inputs", summary, rows=rows[1], **numbers)


def _sample(store: ModelStoreHook, prefix: str, names: set[str]) -> dict[str, Array]:
    """Return the inputs of the requests that were recorded last, rows first.

    :raises GoldenSetError: what lies there is no archive of the model's inputs.
    """
    there = store.listing(prefix, pages=_LISTED_PAGES).objects
    newest = sorted((one for one in there if one.key.endswith(".npz")), key=lambda one: one.written_at)
    gathered: dict[str, list[Array]] = {name: [] for name in names}
    rows = 0
    for entry in reversed(newest[-_FILES:]):
        uri = store.uri(entry.key)
        content = store.read(entry.key, most_bytes=_FILE_LIMIT_BYTES)
        if content is None or rows >= _ROWS_LIMIT:
            continue
        arrays = read_arrays(content, uri, limit_bytes=4 * _FILE_LIMIT_BYTES)
        lacking = sorted(names - arrays.keys())
        if lacking or len({arrays[name].shape[:1] for name in names}) > 1:
            raise GoldenSetError(
                f"{uri} holds no recorded requests",
                expected=f"an array for each of {', '.join(sorted(names))}, rows first",
                found=f"none for {', '.join(lacking)}"
                if lacking
                else "arrays with different numbers of rows",
                remedy="correct what records the requests, or remove `revalidation.recorded_requests`",
            )
        for name in names:
            gathered[name].append(arrays[name][: _ROWS_LIMIT - rows])
        rows += rows_of({name: arrays[name] for name in names})
    try:
        return {name: np.concatenate(parts) for name, parts in gathered.items() if parts}
    except (ValueError, TypeError) as error:
        raise GoldenSetError(
            f"the recorded requests below {store.uri(prefix)} have different shapes",
            expected="rows of one shape in each input",
            found=str(error),
            remedy="correct what records the requests",
        ) from error
