"""Streams one word, and refuses every seventh request."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.asked = 0

    def execute(self, requests):
        for request in requests:
            self.asked += 1
            sender = request.get_response_sender()
            if self.asked % 7:
                tensor = pb_utils.Tensor("text_output", np.array([b" the"], dtype=object))
                sender.send(pb_utils.InferenceResponse([tensor]))
            else:
                error = pb_utils.TritonError("no words left")
                sender.send(pb_utils.InferenceResponse(error=error))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
