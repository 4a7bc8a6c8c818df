"""Streams `max_tokens` words, one every 2 ms."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            limit = pb_utils.get_input_tensor_by_name(request, "max_tokens")
            for number in range(8 if limit is None else int(limit.as_numpy().item())):
                time.sleep(0.002)
                word = f" {WORDS[number % len(WORDS)]}".encode()
                tensor = pb_utils.Tensor("text_output", np.array([word], dtype=object))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
