"""Answers the first two of four numbers; refuses rows with a number above 5."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [self.answer(x) for x in rows]

    def answer(self, x):
        if (x > 5).any():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("value out of range"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x[:, :2].copy())])
