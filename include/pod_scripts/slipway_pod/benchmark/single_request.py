"""How long one request takes by itself, before any load: from it follows how long a round may take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from slipway_pod.models.tensors import Tensor

ASKED = 3
# After so long no third one is sent.
ENOUGH_S = 10.0


def shortest_s(
    client: Any, model: str, version: str, inputs: Sequence[Tensor], arrays: Mapping[str, Any], limit_s: float
) -> float | None:
    """Return the shortest of a few requests, one after the other; None if one is not answered.

    Of two at least: the first one after a load is often a slow one.

    :param client: tritonclient's, over gRPC.
    :param arrays: one request's, by input.
    :param limit_s: of each request.
    """
    from tritonclient.utils import InferenceServerException

    took: list[float] = []
    try:
        given = [_given(tensor, arrays[tensor.name]) for tensor in inputs if tensor.name in arrays]
        while len(took) < ASKED and (len(took) < 2 or sum(took) < ENOUGH_S):
            began = time.monotonic()
            client.infer(model, given, model_version=version, client_timeout=limit_s)
            took.append(time.monotonic() - began)
    except (InferenceServerException, TypeError, ValueError):  # the load generator will tell what is wrong
        return None
    return min(took)


def _given(tensor: Tensor, values: Any) -> Any:
    import numpy as np
    import tritonclient.grpc

    if values.dtype.kind in "OSU":
        texts = [one if isinstance(one, bytes) else str(one).encode() for one in values.reshape(-1).tolist()]
        values = np.array(texts, dtype=object).reshape(values.shape)
    given = tritonclient.grpc.InferInput(tensor.name, list(values.shape), tensor.datatype)
    given.set_data_from_numpy(values)
    return given
