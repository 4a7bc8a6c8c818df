"""Requests over one gRPC stream of Triton's client, each with as many responses as the model sends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from tritonclient.utils import InferenceServerException

from airflow_provider_triton.client.tensors import Arrays, grpc_tensors
from airflow_provider_triton.errors import TimedOutError

if TYPE_CHECKING:  # the clients are imported by what uses them: every parse of a DAG would pay for gRPC
    from tritonclient import grpc as triton_grpc


class AnswerStream:
    """A stream to one version of a model, open within the `with` statement.

    It lets the client's own errors through, those of the stream and those that the server answers with.

    :param headers: what the stream carries.
    :param outputs: names of the output tensors wanted.
    :param timeout_s: limit from a request to its last response.
    """

    def __init__(
        self,
        client: triton_grpc.InferenceServerClient,
        headers: Mapping[str, str],
        model_name: str,
        version: int,
        outputs: Sequence[str],
        timeout_s: float,
    ) -> None:
        self._client = client
        self._headers = dict(headers)
        self._model_name = model_name
        self._version = version
        self._outputs = outputs
        self._timeout_s = timeout_s
        self._arrived: SimpleQueue[tuple[Any, InferenceServerException | None]] = SimpleQueue()

    def __enter__(self) -> Self:
        """Open the stream; the client has one at a time."""
        self._client.start_stream(
            lambda result, error: self._arrived.put((result, error)), headers=self._headers
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Close the stream, whatever is still under way."""
        self._client.stop_stream(cancel_requests=True)

    def ask(self, requests: Iterable[Mapping[str, np.ndarray]], concurrency: int) -> list[list[Arrays]]:
        """Return the responses to each request, in order, each with the wanted outputs that it has."""
        answers: list[list[Arrays]] = []
        ends_at: dict[int, float] = {}
        waiting = iter(requests)
        while True:
            for inputs in islice(waiting, concurrency - len(ends_at)):
                ends_at[len(answers)] = time.monotonic() + self._timeout_s
                self._send(len(answers), inputs)
                answers.append([])
            if not ends_at:
                return answers
            number, answer, is_last = self._next(min(ends_at.values()))
            if answer:
                answers[number].append(answer)
            if is_last:
                del ends_at[number]

    def _send(self, number: int, inputs: Mapping[str, np.ndarray]) -> None:
        tensors, wanted = grpc_tensors(inputs, self._outputs)
        try:
            self._client.async_stream_infer(
                self._model_name,
                tensors,
                model_version=str(self._version),
                outputs=wanted,
                request_id=str(number),
                # A last response may say only that it is the last.
                enable_empty_final_response=True,
            )
        except InferenceServerException:
            # The stream has ended meanwhile; why it did is among what has arrived.
            while True:
                self._next(time.monotonic() + self._timeout_s)

    def _next(self, ends_at: float) -> tuple[int, Arrays, bool]:
        """Return the number of a request, a response to it, and whether it is the last one."""
        try:
            result, error = self._arrived.get(timeout=max(0.0, ends_at - time.monotonic()))
        except Empty:
            raise TimedOutError(
                f"{self._model_name!r} version {self._version} did not finish its answer",
                expected=f"the last response to a request within {self._timeout_s:g} s",
                found="none",
                remedy="make the model generate less, or raise the request limit (`timeout_s`)",
            ) from None
        if error is not None:
            raise error
        response = result.get_response()
        arrays = {name: result.as_numpy(name) for name in self._outputs}
        answer = {name: array for name, array in arrays.items() if array is not None}
        return int(response.id), answer, bool(response.parameters["triton_final_response"].bool_param)
