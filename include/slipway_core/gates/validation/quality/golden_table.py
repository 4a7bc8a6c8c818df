"""The golden set as a table for expectations, one row for each golden row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.scores import MEAN, Array, expectation
from slipway_core.spec.validation import Validation

_DUPLICATES_MOST = 0.1


def golden_table(golden: GoldenSet) -> dict[str, list[Any]]:
    """Return the columns.

    `duplicate` and `conflict` are 1 where an earlier row has the same inputs, `conflict` only where its label differs;
    `label` and `class_share`, the share of the rows with that label, are there where a row has one label;
    `slice.NAME` where there are slices; of each input of numbers `NAME.min`, `.max`, `.mean` and `.zero_share`, of one
    of texts `NAME.length`.
    """
    inputs = golden.columns()
    labels = _labels(golden)
    duplicate, conflict = _repeated(golden.rows, list(inputs.values()), labels)
    table: dict[str, list[Any]] = {"duplicate": duplicate}
    if labels is not None:
        table |= {"conflict": conflict, "label": labels}
        if not isinstance(labels[0], float):
            counts = {one: labels.count(one) for one in set(labels)}
            table["class_share"] = [counts[one] / golden.rows for one in labels]
    for name, values in golden.slices.items():
        table[f"slice.{name}"] = [part_name(one) for one in values.tolist()]
    for name, values in inputs.items():
        table |= {f"{name}.{what}": column for what, column in _statistics(values)}
    return table


def default_golden_suite(table: dict[str, list[Any]], validation: Validation) -> list[dict[str, Any]]:
    """Return what is expected of every golden set; where it is not met, the report warns."""
    expectations = [
        expectation(
            MEAN,
            f"at most {_DUPLICATES_MOST:.0%} of the golden rows have the inputs of an earlier one",
            column="duplicate",
            max_value=_DUPLICATES_MOST,
        )
    ]
    if "conflict" in table and kind_of(validation).labels.one_a_row:
        expectations.append(
            expectation(
                "expect_column_values_to_be_in_set",
                "no golden row has the inputs of an earlier one and another label",
                column="conflict",
                value_set=[0],
            )
        )
    if validation.tells_classes:
        expectations.append(
            expectation(
                "expect_column_unique_value_count_to_be_between",
                "the labels are of two classes or more",
                column="label",
                min_value=2,
            )
        )
    return [{**one, "policy": "warn"} for one in expectations]


def part_name(value: Any) -> str:
    """Return a slice's value as people read it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _labels(golden: GoldenSet) -> list[Any] | None:
    if not golden.has_labels or golden.labels.ndim != 1:
        return None
    found: list[Any] = golden.labels.tolist()
    return found


def _repeated(rows: int, inputs: Sequence[Array], labels: list[Any] | None) -> tuple[list[int], list[int]]:
    """Return by row whether an earlier one has the same inputs, and whether one of these has another label."""
    seen: dict[bytes, set[Any]] = {}
    duplicate, conflict = [], []
    for row in range(rows):
        digest = hashlib.blake2b(digest_size=16)
        for values in inputs:
            for piece in _pieces(values[row]):
                digest.update(len(piece).to_bytes(8, "big"))
                digest.update(piece)
        key, label = digest.digest(), None if labels is None else labels[row]
        known = seen.setdefault(key, set())
        duplicate.append(int(bool(known)))
        conflict.append(int(bool(known - {label})))
        known.add(label)
    return duplicate, conflict


def _pieces(row: Any) -> Iterator[bytes]:
    if getattr(row, "dtype", None) is not None and row.dtype != object:
        yield row.tobytes()
        return
    for one in np.asarray(row, dtype=object).reshape(-1):
        yield one if isinstance(one, bytes) else str(one).encode(errors="replace")


def _statistics(values: Array) -> Iterator[tuple[str, list[Any]]]:
    """Yield the statistics of an input's rows: name and column."""
    if values.dtype.kind in "OSU":
        texts = values.reshape(len(values), -1).tolist()
        yield "length", [sum(len(_decoded(one)) for one in row) for row in texts]
        return
    rows = values.reshape(len(values), -1)
    if rows.shape[1]:
        yield "min", rows.min(axis=1).tolist()
        yield "max", rows.max(axis=1).tolist()
        yield "mean", rows.mean(axis=1, dtype=np.float64).tolist()
        yield "zero_share", (rows == 0).mean(axis=1).tolist()


def _decoded(one: Any) -> str:
    return one.decode(errors="replace") if isinstance(one, bytes) else str(one)
