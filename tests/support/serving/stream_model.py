"""A decoupled model that answers a number with its double, piece by piece, or goes wrong inside the stream."""

from __future__ import annotations

PROGRAM = """
import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.fault = json.loads(args["model_config"])["parameters"]["fault"]["string_value"]

    def execute(self, requests):
        for request in requests:
            self.answer(request)

    def answer(self, request):
        sender = request.get_response_sender()
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if self.fault == "silence":
            time.sleep(2.5)
        if self.fault == "error":
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("drawn to fail")), flags=final)
            return
        if self.fault == "nothing":
            sender.send(flags=final)
            return
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]))
        if self.fault == "error after the first":
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("lost the thread")), flags=final)
            return
        if self.fault == "hang after the first":
            time.sleep(2.5)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)]))
        sender.send(flags=final)
"""

CONFIG = """
name: "{name}"
backend: "python"
max_batch_size: 0
{policy}
input [ {{ name: "x", data_type: TYPE_FP32, dims: [ 1 ] }} ]
output [ {{ name: "y", data_type: TYPE_FP32, dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU, count: 1 }} ]
version_policy: {{ specific {{ versions: [ {version} ] }} }}
parameters [ {{ key: "fault", value: {{ string_value: "{fault}" }} }} ]
"""


def stream_model_files(name: str, version: int, fault: str = "") -> dict[str, bytes]:
    """Return the repository of one version by path.

    :param fault: how it fails each request: "error", "error after the first", "hang after the first", "silence", or
        "nothing" (an empty final response alone); "": it does not.
    """
    policy = "model_transaction_policy { decoupled: true }"
    config = CONFIG.format(name=name, version=version, policy=policy, fault=fault)
    return {f"{name}/config.pbtxt": config.encode(), f"{name}/{version}/model.py": PROGRAM.encode()}
