"""Answers with the text it was given, in one piece."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("text_output", text)]) for text in texts]
