"""Warm-up requests: their entries in the configuration, and the files that hold golden rows.

Triton reads the files from the folder `warmup` beside config.pbtxt: values one after the other in
little-endian order, each text after its length in 32 bits. Seen with Triton 2.51: a sample of batch size n is
sent as n requests of one row in one batch, each fed the file's first row, and a file of texts with more than
one row is refused. So a file holds one row; more rows of the golden set are more samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_core.errors import GoldenSetError, ModelInvalidError
from slipway_core.identifiers import nearest
from slipway_core.spec.serving.serving import WarmupSample
from slipway_core.triton_config.files import WARMUP_FOLDER
from slipway_core.triton_config.options import Config
from slipway_rules.row_axes import RowAxis, fits_axis, rows_along, take_rows


@dataclass(frozen=True)
class Warmup:
    """`model_warmup`'s entries, and the content of each file they name, by its path beside config.pbtxt."""

    entries: tuple[Config, ...] = ()
    files: Mapping[str, bytes] | None = None


def make_warmup(
    samples: Sequence[WarmupSample] | None,
    config: Mapping[str, Any],
    golden: Mapping[str, Any],
    row_axis: Mapping[str, RowAxis] | None = None,
) -> Warmup:
    """Return the warm-up of a model with `config`.

    :param golden: an array for each input's name.
    :param row_axis: `golden.row_axis` of the release file.
    :raises ModelInvalidError: for an input that the model does not have or whose size is not known.
    :raises GoldenSetError: for a column or row that is not there.
    """
    inputs = {str(tensor["name"]): tensor for tensor in config.get("input", ())}
    entries: list[Config] = []
    files: dict[str, bytes] = {}
    for sample in samples or ():
        _require_known(sample, inputs)
        values: Config = {}
        for number, (name, tensor) in enumerate(sorted(inputs.items())):
            data = sample.inputs.get(name, sample.data)
            if tensor.get("optional") and name not in sample.inputs and name not in golden:
                continue
            value: Config = {"data_type": tensor["data_type"], "dims": _sizes(sample, tensor)}
            if data == "golden":
                axis = 0 if config.get("max_batch_size") else (row_axis or {}).get(name)
                row = _golden_row(sample, tensor, golden, axis, batched=bool(config.get("max_batch_size")))
                file = f"{sample.name}.{number}.bin"
                files[f"{WARMUP_FOLDER}/{file}"] = _bytes(row, str(tensor["data_type"]))
                value.update(dims=list(row.shape) or [1], input_data_file=file)
            else:
                value[f"{data}_data"] = True
            values[name] = value
        entry = {"name": sample.name, "batch_size": sample.batch_size, "inputs": values}
        entries.append({**entry, "count": sample.count} if sample.count > 1 else entry)
    return Warmup(tuple(entries), files)


def needs_golden(samples: Sequence[WarmupSample] | None) -> bool:
    """Return whether the golden set must be read for these samples."""
    return any("golden" in (sample.data, *sample.inputs.values()) for sample in samples or ())


def _require_known(sample: WarmupSample, inputs: Mapping[str, Any]) -> None:
    for place in ("inputs", "shapes"):
        for name in getattr(sample, place):
            if name not in inputs:
                near = nearest(name, list(inputs))
                raise ModelInvalidError(
                    f"`serving.warmup` {sample.name!r}: `{place}.{name}` is not an input of the model",
                    expected=f"one of {', '.join(sorted(inputs))}",
                    found=name,
                    remedy=f"Did you mean `{near}`?" if near else "Remove it, or correct its name.",
                )


def _sizes(sample: WarmupSample, tensor: Mapping[str, Any]) -> list[int]:
    name, dims = str(tensor["name"]), [int(size) for size in tensor["dims"]]
    wanted = sample.shapes.get(name)
    if wanted is not None:
        if len(wanted) != len(dims) or any(d not in (-1, w) for d, w in zip(dims, wanted, strict=True)):
            raise ModelInvalidError(
                f"`serving.warmup` {sample.name!r}: `shapes.{name}` does not fit the input",
                expected=f"sizes that fit {dims} (-1: any)",
                found=str(list(wanted)),
                remedy="Correct the sizes; the batch dimension is not one of them.",
            )
        return list(wanted)
    if -1 in dims and sample.inputs.get(name, sample.data) != "golden":
        raise ModelInvalidError(
            f"`serving.warmup` {sample.name!r}: the size of the input `{name}` is not known",
            expected=f"`shapes.{name}`, since the input's shape varies",
            found=str(dims),
            remedy=f"Write `shapes: {{{name}: [...]}}`, or take golden data.",
        )
    return dims


def _golden_row(
    sample: WarmupSample,
    tensor: Mapping[str, Any],
    golden: Mapping[str, Any],
    said: RowAxis | None,
    *,
    batched: bool,
) -> Any:
    name, dims = str(tensor["name"]), [int(size) for size in tensor["dims"]]
    column = golden.get(name)
    if column is None:
        raise GoldenSetError(
            f"`serving.warmup` {sample.name!r}: the golden set has no column for the input `{name}`",
            expected=f"an array named {name}",
            found=", ".join(sorted(golden)) or "none",
            remedy=f"Add the column, or write `inputs: {{{name}: zero}}`.",
        )
    # The gate that reads the whole golden set reports a shape that doesn't fit.
    fitting = (one for one in _in_order(dims) if fits_axis(column.shape, dims, one))
    axis: RowAxis = next(fitting, 0) if said is None else said
    rows = rows_along(column.shape, axis)
    if rows is not None and sample.row >= rows:
        raise GoldenSetError(
            f"`serving.warmup` {sample.name!r}: the golden set has no row {sample.row}",
            expected=f"a row from 0 to {rows - 1}",
            found=str(sample.row),
            remedy="Correct `row`.",
        )
    if batched:
        return column[sample.row]
    # Without a batch dimension the model's own size is that of the golden rows it takes at once.
    taken = max(dims[axis], 1) if isinstance(axis, int) else 1
    return take_rows(column, axis, slice(sample.row, sample.row + taken))


def _in_order(dims: Sequence[int]) -> list[RowAxis]:
    """Return the axes that may count rows, the likeliest first."""
    return [0, *(axis for axis in range(1, len(dims)) if dims[axis] == -1), "request", "none"]


def _bytes(row: Any, data_type_name: str) -> bytes:
    if data_type_name != "TYPE_STRING":
        # A golden set in big-endian order would be read wrongly.
        return bytes(row.astype(row.dtype.newbyteorder("<")).tobytes())
    texts = row.reshape(-1).tolist() if getattr(row, "shape", ()) else [row]
    encoded = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)
