"""perf_analyzer's requests are cut out of the golden set as every gate cuts them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

from benchmark_perf_analyzer import write_requests
from slipway_pod.models.rows import GoldenRows


def test_a_state_on_the_second_axis_and_a_single_number_are_sent_whole(tmp_path: Path) -> None:
    """A model that takes no batch gets each tensor in the shape that it takes."""
    state = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    columns = {"state": state, "rate": np.asarray(16000)}
    golden = GoldenRows(columns, {"state": 1, "rate": "none"}, 2, {"state": 3, "rate": 1})
    target = tmp_path / "requests.json"
    assert write_requests(golden, batched=False, target=target) == 2
    first, second = json.loads(target.read_text())["data"]
    assert (first["rate"]["shape"], second["state"]["shape"]) == ([1], [2, 1, 3])
    sent = np.frombuffer(base64.b64decode(second["state"]["content"]["b64"]), "<f4")
    assert sent.tolist() == state[:, 1].reshape(-1).tolist()


def test_a_model_of_a_fixed_batch_gets_whole_batches(tmp_path: Path) -> None:
    """Each request has so many rows as the model's first size is, the last ones from the beginning again."""
    golden = GoldenRows({"x": np.arange(3, dtype=np.float32).reshape(3, 1)}, {"x": 0}, 3)
    target = tmp_path / "requests.json"
    write_requests(golden, batched=False, target=target, size=2)
    shapes = [step["x"]["shape"] for step in json.loads(target.read_text())["data"]]
    assert shapes == [[2, 1]] * 3
