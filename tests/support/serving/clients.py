"""Clients that ask a model through the router, and what they were answered."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as triton_grpc

HOST = "table.models.sandbox.test"


def body_of(first: float) -> bytes:
    """The JSON body of one inference request with one row."""
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [first, 1.0]}
    return json.dumps({"inputs": [tensor]}).encode()


def ask_http(port: int, first: float = 1.0, host: str = HOST) -> tuple[int, float]:
    """Ask once over HTTP; returns the status and the factor that the answer shows, or 0."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v2/models/table/infer", body_of(first), {"Host": host})
        response = connection.getresponse()
        answer = response.read()
        return response.status, json.loads(answer)["outputs"][0]["data"][1] if response.status == 200 else 0.0
    finally:
        connection.close()


def grpc_client(port: int) -> triton_grpc.InferenceServerClient:
    """A client whose requests carry the ingress's host name."""
    return triton_grpc.InferenceServerClient(
        f"127.0.0.1:{port}", channel_args=[("grpc.default_authority", f"{HOST}:{port}")]
    )


def ask_grpc(client: triton_grpc.InferenceServerClient, first: float = 1.0) -> float:
    """Ask once over gRPC; returns the factor that the answer shows."""
    x = triton_grpc.InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[first, 1.0]], dtype=np.float32))
    return float(client.infer("table", [x], client_timeout=60).as_numpy("y")[0, 1])


@dataclass
class Load:
    """Clients that ask without a pause over both protocols, and what they were answered."""

    port: int
    answers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    # When each answer was given last, on the monotonic clock.
    last_s: dict[str, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Load:
        for loop in (self._http, self._grpc):
            thread = threading.Thread(target=loop)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)

    def _note(self, answer: str) -> None:
        self.answers[answer] += 1
        self.last_s[answer] = time.monotonic()

    def _http(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._stop.is_set():
            try:
                connection.request("POST", "/v2/models/table/infer", body_of(1.0), {"Host": HOST})
                response = connection.getresponse()
                answer = response.read()
                if response.status == 200:
                    self._note(f"http {json.loads(answer)['outputs'][0]['data'][1]:g}")
                else:
                    self.failures.append(f"http {response.status} {answer[:200]!r}")
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"http {error!r}")
                connection.close()
        connection.close()

    def _grpc(self) -> None:
        with grpc_client(self.port) as client:
            while not self._stop.is_set():
                try:
                    self._note(f"grpc {ask_grpc(client):g}")
                except Exception as error:  # each is a failed request, which the test counts
                    self.failures.append(f"grpc {error}")
