"""Models that Triton hands a whole batch as one flat tensor, and the tensors that it makes of the batch.

A request to such a model has one row: with `allow_ragged_batch` and `batch_input` the server counts requests, and a
model answers one row for each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slipway_core.triton_config.checks.batch_tensors import batch_targets


def is_asked_row_by_row(config: Mapping[str, Any]) -> bool:
    """Return whether a request to a model with this configuration has one row."""
    return bool(_ragged(config) or config.get("batch_input") or config.get("batch_output"))


def batch_tensors_arguments(config: Mapping[str, Any], max_batch_size: int) -> tuple[str, ...]:
    """Return what a converter of ONNX files must know of the tensors of a batch; nothing for other models.

    :param max_batch_size: as it is released, whatever `config` says.
    """
    if not is_asked_row_by_row(config):
        return ()
    batch = [-1] if max_batch_size else []
    arguments = {
        "ragged": {
            str(one["name"]): [*batch, *(int(size) for size in one.get("dims") or ())]
            for one in _ragged(config)
        },
        "made": [
            {
                "kind": str(one.get("kind") or "BATCH_ELEMENT_COUNT"),
                "datatype": str(one.get("data_type") or "").removeprefix("TYPE_"),
                "source": str((one.get("source_input") or [""])[0]),
                "targets": batch_targets({"batch_input": [one]}, "batch_input"),
            }
            for one in config.get("batch_input") or ()
        ],
        "scattered": {
            name: str((one.get("source_input") or [""])[0])
            for one in config.get("batch_output") or ()
            for name in batch_targets({"batch_output": [one]}, "batch_output")
        },
    }
    return ("--batch-tensors", json.dumps(arguments, sort_keys=True))


def _ragged(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in config.get("input") or () if one.get("allow_ragged_batch")]
