"""The golden check of a live version: outputs that are not scored, and how many rows a slow model is sent."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slipway.hooks.live_server import Reply
from slipway.operators.revalidation import golden_check
from slipway.operators.revalidation.golden_asking import ask_each
from slipway_core.gates.validation.answers import KeptAnswers
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.operations.revalidation.report import passed
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.tensors import ModelSignature, TensorSpec

ROWS, CLASSES = 12, 3
SPEC = parse_release_spec(
    "model: digits\nsource: {format: onnx}\nserving: {max_batch_size: 8}\nrevalidation: {timeout_s: 10}\n"
    "validation: {output: scores, batch_size: 8}\n",
    "digits.yaml",
)
SIGNATURE = ModelSignature(
    inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, CLASSES)),),
    outputs=(
        TensorSpec(name="scores", datatype="FP32", shape=(-1, CLASSES)),
        TensorSpec(name="digit", datatype="INT64", shape=(-1,)),
    ),
)
LABELS = np.arange(ROWS) % CLASSES
X = np.eye(CLASSES, dtype=np.float32)[LABELS]


class Server:
    """Answers golden rows: the inputs as `scores`, and the class, off by some, as `digit`."""

    def __init__(self, row_s: float = 0.001, off_by: int = 0) -> None:
        self.row_s, self.off_by, self.asked = row_s, off_by, list[int]()

    def post_each(self, requests: list[tuple[str, bytes, Any]]) -> list[Reply]:
        """Answer each; how long that took is what its rows take."""
        return [self._reply(body, headers) for _, body, headers in requests]

    def _reply(self, body: bytes, headers: Any) -> Reply:
        raw = body[int(headers["Inference-Header-Content-Length"]) :]
        x = np.frombuffer(raw, np.float32).reshape(-1, CLASSES)
        self.asked.append(len(x))
        digits = (x.argmax(axis=1) + self.off_by) % CLASSES
        outputs = [
            {"name": "scores", "datatype": "FP32", "shape": list(x.shape), "data": x.reshape(-1).tolist()},
            {"name": "digit", "datatype": "INT64", "shape": [len(x)], "data": digits.tolist()},
        ]
        return Reply(200, {}, json.dumps({"outputs": outputs}).encode(), 1000 * self.row_s * len(x))


def parts_of(server: Server, digits: np.ndarray) -> Any:
    """What the check needs of the live version, whose answers of the release are kept."""
    golden = golden_from_arrays({"x": X, "label": LABELS}, SIGNATURE, "label")
    return SimpleNamespace(
        spec=SPEC,
        manifest=SimpleNamespace(signature=SIGNATURE),
        server=server,
        golden=lambda: (golden, {"max_batch_size": 8}),
        is_decoupled=lambda: False,
        ask_each=lambda rows: ask_each(server, "digits", SIGNATURE, rows),  # type: ignore[arg-type]
        reference=lambda promoted_by: KeptAnswers(X, {"digit": digits}),
    )


def test_a_damaged_second_output_is_found() -> None:
    """The scores are right, the class beside them is off by one: the version differs, and the output is named."""
    found = golden_check.check_answers(parts_of(Server(off_by=1), LABELS), "run")
    assert found.outcome == "differs"
    assert found.summary == "output `digit`: 0.0% of the rows have the same answer as at the release"


def test_a_second_output_as_it_was_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is scored then decides."""
    monkeypatch.setattr(golden_check, "_judged", lambda *_: passed("answers", "judged"))
    found = golden_check.check_answers(parts_of(Server(), LABELS), "run")
    assert (found.outcome, found.summary) == ("passed", "judged")


@pytest.mark.parametrize(("row_s", "rows"), [(0.001, 8), (1.0, 2), (4.0, 1)], ids=["fast", "slow", "slowest"])
def test_a_slow_model_gets_requests_that_it_answers_in_time(row_s: float, rows: int) -> None:
    """By what one row takes: a request may take a quarter of its limit of 10 s, and has one row at least."""
    server = Server(row_s, off_by=1)
    golden_check.check_answers(parts_of(server, LABELS), "run")
    assert server.asked[0] == 1
    assert max(server.asked[1:]) == rows
    assert sum(server.asked[1:]) == ROWS
