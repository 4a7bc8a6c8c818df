"""How long one request takes by itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from slipway_pod.benchmark import single_request
from slipway_pod.benchmark.single_request import ASKED, shortest_s
from slipway_pod.models.tensors import Tensor

INPUTS = (Tensor("x", "FP32", (-1, 2)), Tensor("text", "BYTES", (-1, 1)), Tensor("more", "FP32", (1,), True))
ARRAYS = {"x": np.ones((1, 2), np.float32), "text": np.array([["caf\u00e9"]])}


class Client:
    """A server that takes so long for each request, one after the other."""

    def __init__(self, *took_s: float) -> None:
        self.took_s, self.asked = list(took_s), list[Any]()

    def infer(self, model: str, inputs: Any, *, model_version: str, client_timeout: float) -> None:
        """Answer, or refuse where nothing is left."""
        self.asked.append((model, model_version, client_timeout, {one.name(): one for one in inputs}))
        if not self.took_s:
            raise InferenceServerException("no")
        time.sleep(self.took_s.pop(0))


def test_the_shortest_of_a_few_counts() -> None:
    """The first one after a load is often a slow one; what the golden set has not is left out."""
    client = Client(0.2, 0.0, 0.1)
    found = shortest_s(client, "m", "2", INPUTS, ARRAYS, 9.0)
    assert found is not None
    assert found < 0.1
    assert len(client.asked) == ASKED
    model, version, limit_s, given = client.asked[0]
    assert (model, version, limit_s, sorted(given)) == ("m", "2", 9.0, ["text", "x"])


def test_slow_ones_are_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is the benchmark's."""
    monkeypatch.setattr(single_request, "ENOUGH_S", 0.05)
    client = Client(0.1, 0.0)
    assert shortest_s(client, "m", "2", INPUTS, ARRAYS, 9.0) is not None
    assert len(client.asked) == 2


@pytest.mark.parametrize("array", [ARRAYS["x"], np.ones((1, 2), np.int8)])
def test_what_is_not_answered_tells_nothing(array: Any) -> None:
    """Neither a refused request nor one that cannot be made ends the benchmark here: its load generator tells why."""
    assert shortest_s(Client(), "m", "2", INPUTS, {"x": array}, 9.0) is None
