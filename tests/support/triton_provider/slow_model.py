"""A model that works on a request for as many seconds as the request says."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from airflow_provider_triton.hooks.triton import TritonHook
from tests.support.waiting import wait_until

CONFIG = """
name: "slow"
backend: "python"
max_batch_size: 4
input [ { name: "seconds" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "done" data_type: TYPE_FP32 dims: [ 1 ] } ]
parameters { key: "marks" value { string_value: "MARKS" } }
"""
PROGRAM = """
import json
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.marks = Path(json.loads(args["model_config"])["parameters"]["marks"]["string_value"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        seconds = pb_utils.get_input_tensor_by_name(request, "seconds").as_numpy()
        (self.marks / str(time.time_ns())).touch()
        time.sleep(float(seconds.max()))
        return pb_utils.InferenceResponse([pb_utils.Tensor("done", seconds)])
"""


def marks_of(repository: Path) -> Path:
    """Return the folder in which the model leaves a file for each request that it begins to work on."""
    return repository.with_name(f"{repository.name}-marks")


def write_slow_model(repository: Path, name: str = "slow", version: int = 1) -> str:
    """Write the model, with one version, into a repository; return its configuration."""
    folder, marks = repository / name, marks_of(repository)
    (folder / str(version)).mkdir(parents=True)
    marks.mkdir(exist_ok=True)
    config = CONFIG.replace("MARKS", str(marks)).replace('"slow"', f'"{name}"')
    (folder / "config.pbtxt").write_text(config)
    (folder / str(version) / "model.py").write_text(PROGRAM)
    return config


class SlowRequest:
    """A request to `slow` that a thread waits for, while the context lasts; its `answer` is what it was asked.

    :param until_begun: the context begins when the model works on the request: no number of the server's says so.
    """

    def __init__(
        self, hook: TritonHook, repository: Path, seconds: float, *, until_begun: bool = True
    ) -> None:
        self.answer: float | None = None
        self._hook = TritonHook(hook.triton_conn_id, timeout_s=30)
        self._marks = marks_of(repository)
        self._seconds = np.array([[seconds]], np.float32)
        self._until_begun = until_begun
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        answer = self._hook.infer("slow", 1, {"seconds": self._seconds}, ["done"])
        self.answer = round(float(answer["done"][0, 0]), 3)

    def __enter__(self) -> SlowRequest:
        begun = len(list(self._marks.iterdir()))
        self._thread.start()
        if self._until_begun:
            wait_until(lambda: len(list(self._marks.iterdir())) > begun, "the model works on the request")
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)
