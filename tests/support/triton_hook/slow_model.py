"""A model that works on a request for as many seconds as the request says."""

from __future__ import annotations

from pathlib import Path

CONFIG = """
name: "slow"
backend: "python"
max_batch_size: 4
input [ { name: "seconds" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "done" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
PROGRAM = """
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        seconds = pb_utils.get_input_tensor_by_name(request, "seconds").as_numpy()
        time.sleep(float(seconds.max()))
        return pb_utils.InferenceResponse([pb_utils.Tensor("done", seconds)])
"""


def write_slow_model(repository: Path) -> None:
    """Write the model `slow` into a repository."""
    folder = repository / "slow"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG)
    (folder / "1" / "model.py").write_text(PROGRAM)
