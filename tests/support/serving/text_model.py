"""A model that writes text, as training leaves it: for a prompt it streams the words of a file, one a response."""

from __future__ import annotations

import json
from collections.abc import Mapping

PROGRAM = """
import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        with open(parameters["words_file"]["string_value"]) as file:
            self.words = json.load(file)

    def execute(self, requests):
        for request in requests:
            self.answer(request)

    def answer(self, request):
        sender = request.get_response_sender()
        asked = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
        prompt = asked.reshape(-1)[0].decode()
        limit = pb_utils.get_input_tensor_by_name(request, "max_tokens")
        words = self.words[prompt] if limit is None else self.words[prompt][: int(limit.as_numpy().reshape(-1)[0])]
        for word in words:
            if word == "<hang>":
                time.sleep(20)
            if word == "<fail>":
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("lost for words")))
                break
            text = np.array([word.encode()], dtype=object).reshape(asked.shape)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", text)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

CONFIG = """
backend: "python"
max_batch_size: 4
model_transaction_policy { decoupled: true }
parameters { key: "words_file" value { string_value: "WORDS_FILE" } }
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] optional: true }
]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


ENSEMBLE = """
platform: "ensemble"
max_batch_size: 4
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] optional: true }
]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
ensemble_scheduling { step [
  { model_name: "MEMBER" model_version: -1
    input_map { key: "text_input" value: "text_input" } input_map { key: "max_tokens" value: "max_tokens" }
    output_map { key: "text_output" value: "text_output" } }
] }
"""


def text_model_files(
    name: str, version: int, words: Mapping[str, list[str]], max_batch_size: int = 4
) -> dict[str, bytes]:
    """Return a repository of the model alone by path; it opens its words where KServe lays them when it is loaded."""
    config = CONFIG.replace("max_batch_size: 4", f"max_batch_size: {max_batch_size}")
    words_file = f"/mnt/models/{name}/{version}/words.json"
    return {
        f"{name}/{version}/model.py": PROGRAM.encode(),
        f"{name}/{version}/words.json": json.dumps(words).encode(),
        f"{name}/config.pbtxt": config.replace("WORDS_FILE", words_file).encode(),
    }


def text_ensemble_files(name: str, version: int, words: Mapping[str, list[str]]) -> dict[str, bytes]:
    """Return a repository of an ensemble that only passes on what its one member, `NAME_writer`, is asked."""
    member = f"{name}_writer"
    ensemble = {f"{name}/config.pbtxt": ENSEMBLE.replace("MEMBER", member).encode()}
    return {**ensemble, **text_model_files(member, version, words)}
