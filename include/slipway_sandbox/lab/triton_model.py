"""Doubles its input, or fails: a model for Triton's Python backend, which is run there and never imported here."""

from __future__ import annotations

import json
import random
from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Fails the share of requests that the parameter `error_percent` says; `seed` decides which."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the parameters from the model's configuration."""
        parameters = json.loads(args["model_config"])["parameters"]
        self._share = float(parameters["error_percent"]["string_value"]) / 100
        self._random = random.Random(int(parameters["seed"]["string_value"]))

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request by itself."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        if self._random.random() < self._share:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("this request was drawn to fail"))
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)])
