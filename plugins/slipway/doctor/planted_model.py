"""A model of doctor's own, whose answers its clients choose: well, an error, or none for a while."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import aiohttp

from slipway.hooks.ingress import Endpoint
from slipway_core.bucket_layout import repository_paths, s3_uri

MODEL = "slipway-doctor"
"""The name of the model and of its InferenceService."""
VERSION = 1
WELL, FAIL, HANG = 0, 1, 2
HANGS_S = 60
GIVEN_UP_S = 3.0
"""How long a client waits for the answer that does not come."""
_ANSWER_LIMIT_S = 20.0

_CONFIG = f"""name: "{MODEL}"
backend: "python"
max_batch_size: 0
input [ {{ name: "act" data_type: TYPE_INT32 dims: [ 1 ] }} ]
output [ {{ name: "act" data_type: TYPE_INT32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 2 }} ]
"""
_PROGRAM = f"""import time

import triton_python_backend_utils as backend


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(backend.get_input_tensor_by_name(one, "act").as_numpy()) for one in requests]

    def answer(self, act):
        if int(act[0]) == {HANG}:
            time.sleep({HANGS_S})
        if int(act[0]) == {FAIL}:
            return backend.InferenceResponse(output_tensors=[], error=backend.TritonError("planted by slipway doctor"))
        return backend.InferenceResponse(output_tensors=[backend.Tensor("act", act)])
"""


# No version: it lies where the bucket's policy lets Airflow write, and servers read. No folder of it is called
# `repository`: in policies `*` stands for slashes, too, and what lies in one is the publisher's.
_REPOSITORY = f"{repository_paths(MODEL, VERSION).evidence}planted/served"


def repository_files() -> Mapping[str, bytes]:
    """Return the files of the model's repository by their keys in the bucket."""
    return {
        f"{_REPOSITORY}/{MODEL}/config.pbtxt": _CONFIG.encode(),
        f"{_REPOSITORY}/{MODEL}/{VERSION}/model.py": _PROGRAM.encode(),
    }


def repository_uri(bucket: str) -> str:
    """Return the `storageUri` of its InferenceService."""
    return s3_uri(bucket, _REPOSITORY)


def ask(endpoint: Endpoint, act: int) -> str:
    """Send one request by the users' way; return the HTTP status, or in words that none came.

    A client that waits for what hangs gives up after `GIVEN_UP_S`.
    """
    return asyncio.run(_asked(endpoint, act))


async def _asked(endpoint: Endpoint, act: int) -> str:
    body = json.dumps({"inputs": [{"name": "act", "datatype": "INT32", "shape": [1], "data": [act]}]})
    limit = aiohttp.ClientTimeout(total=GIVEN_UP_S if act == HANG else _ANSWER_LIMIT_S)
    headers = {"Host": endpoint.host, "Content-Type": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.post(
                f"{endpoint.base_url}/v2/models/{MODEL}/infer", data=body, headers=headers
            ) as answer,
        ):
            return str(answer.status)
    except TimeoutError:
        return "no answer"
    except (aiohttp.ClientError, OSError) as error:
        return type(error).__name__
