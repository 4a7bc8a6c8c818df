"""Sends calls and inference requests to one Triton: in time, again where that is safe, and with our own errors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import ValidationError
from tenacity import (
    AsyncRetrying,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.calls import Call, Kind
from airflow_provider_triton.client.event_loop import run
from airflow_provider_triton.client.failures import (
    ErrorAnswerError,
    NoAnswerError,
    error_of,
    inference_error,
    unavailable,
)
from airflow_provider_triton.client.grpc_transport import AsyncGrpcTransport, GrpcTransport, translated
from airflow_provider_triton.client.http_transport import HttpTransport
from airflow_provider_triton.client.settings import Protocol, TritonSettings
from airflow_provider_triton.client.stream import AnswerStream
from airflow_provider_triton.client.tensors import Arrays
from airflow_provider_triton.errors import TritonError, UserError

if TYPE_CHECKING:
    from airflow_provider_triton.client.grpc_transport import AsyncGrpcSession
    from airflow_provider_triton.client.http_transport import HttpSession

T = TypeVar("T")

# What needs no work of the server's is answered within this, or not at all. An index over an object store that is away
# takes 25 s.
_QUESTION_LIMIT_S = 60.0
_ATTEMPTS = 3


class TritonCaller:
    """Sends calls to one server.

    :param timeout_s: limit of one call, instead of the settings'.
    """

    def __init__(self, settings: TritonSettings, timeout_s: float | None = None) -> None:
        self.settings = settings
        self.timeout_s = settings.timeout_s if timeout_s is None else timeout_s

    @cached_property
    def _grpc(self) -> GrpcTransport:
        return GrpcTransport(self.settings)

    def ask(self, call: Call[T], limit_s: float | None = None) -> T:
        """Send a call of `airflow_provider_triton.client.calls`, wait for the answer and return its typed result.

        :param limit_s: instead of the hook's.
        :raises TritonError: which one, `airflow_provider_triton.client.failures` says.
        """
        if self.settings.control == "http":
            return run(self.ask_async(call, limit_s))
        limit_s, deadline = self._limits(call, limit_s)
        try:
            for attempt in Retrying(**_repeats(call, deadline)):
                with attempt:
                    return self._parsed(call, self._grpc.send(call, _left(deadline)))
        except ErrorAnswerError as error:
            if call.kind is Kind.LOAD and error.is_not_polled:
                self.ask(
                    calls.index(), limit_s
                )  # fails, with the reason, where the repository is out of reach
            raise error_of(call, error, self.settings) from error
        except NoAnswerError as error:
            raise unavailable(self.settings, call.doing, str(error)) from error
        raise AssertionError("a call ends with an answer or an error")

    async def ask_async(self, call: Call[T], limit_s: float | None = None) -> T:
        """Send a call as `ask` does, in an event loop: no thread waits for the answer."""
        limit_s, deadline = self._limits(call, limit_s)
        try:
            async with self._open(self.settings.control) as session:
                async for attempt in AsyncRetrying(**_repeats(call, deadline)):
                    with attempt:
                        return self._parsed(call, await session.send(call, _left(deadline)))
        except ErrorAnswerError as error:
            if call.kind is Kind.LOAD and error.is_not_polled:
                await self.ask_async(calls.index(), limit_s)
            raise error_of(call, error, self.settings) from error
        except NoAnswerError as error:
            raise unavailable(self.settings, call.doing, str(error)) from error
        raise AssertionError("a call ends with an answer or an error")

    def check_inference(self, limit_s: float) -> None:
        """Ask whether the server lives, over the protocol of inference where control uses another.

        :raises TritonError: it does not answer there.
        """
        if self.settings.inference == self.settings.control:
            return
        try:
            self._grpc.send(calls.live(), limit_s)
        except (ErrorAnswerError, NoAnswerError) as error:
            doing = f"over gRPC at {self.settings.grpc_address}"
            raise unavailable(self.settings, doing, str(error)) from error

    def _limits(self, call: Call[Any], limit_s: float | None) -> tuple[float, float]:
        limit_s = self.timeout_s if limit_s is None else limit_s
        most_s = limit_s if call.kind is Kind.LOAD else min(limit_s, _QUESTION_LIMIT_S)
        return limit_s, time.monotonic() + most_s

    def _open(self, protocol: Protocol) -> AbstractAsyncContextManager[HttpSession | AsyncGrpcSession]:
        if protocol == "http":
            return HttpTransport(self.settings).open()
        return AsyncGrpcTransport(self.settings).open()

    def _parsed(self, call: Call[T], document: Any) -> T:
        try:
            return call.parse(document)
        except (ValidationError, ValueError, TypeError, TritonError) as error:
            found = str(error).replace("\n", " ")
            raise unavailable(self.settings, call.doing, f"an unreadable answer: {found}") from error

    def infer(
        self,
        model_name: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
    ) -> Arrays:
        """Send one request.

        :param version: None for the one that the server chooses.
        :param inputs: an array for each input tensor, batch dimension first.
        :param outputs: names of the output tensors wanted.
        :return: an array for each of those outputs.
        :raises ModelInvalidError: the server answered with an error about this request.
        :raises ModelNotLoadedError: the server does not have the model ready.
        """
        if self.settings.inference == "http":
            return run(self.infer_async(model_name, version, inputs, outputs))
        with self._inferring(model_name, version, outputs):
            return self._grpc.infer(model_name, version, inputs, outputs, self.timeout_s)

    async def infer_async(
        self,
        model_name: str,
        version: int | None,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
    ) -> Arrays:
        """Send one request as `infer` does, in an event loop."""
        with self._inferring(model_name, version, outputs):
            async with self._open(self.settings.inference) as session:
                return await session.infer(model_name, version, inputs, outputs, self.timeout_s)
        raise AssertionError("a request ends with an answer or an error")

    async def infer_each(
        self,
        model_name: str,
        version: int | None,
        requests: Sequence[Mapping[str, np.ndarray]],
        outputs: Sequence[str],
        limit_s: float,
    ) -> list[float]:
        """Send requests, one after the other over one connection; return how long each took, in milliseconds.

        :param limit_s: for all of them together.
        :raises ModelInvalidError: the server answered one with an error.
        """
        latencies_ms, deadline = list[float](), time.monotonic() + limit_s
        with self._inferring(model_name, version, outputs):
            async with self._open(self.settings.inference) as session:
                for inputs in requests:
                    began = time.perf_counter()
                    await session.infer(model_name, version, inputs, outputs, _left(deadline))
                    latencies_ms.append(1000.0 * (time.perf_counter() - began))
        return latencies_ms

    def infer_stream(
        self,
        model_name: str,
        version: int,
        requests: Iterable[Mapping[str, np.ndarray]],
        outputs: Sequence[str],
        *,
        concurrency: int = 8,
    ) -> list[list[Arrays]]:
        """Send requests over one gRPC stream: a decoupled model answers nowhere else, other models answer there too.

        :param requests: for each request an array for each input tensor.
        :param concurrency: requests that are under way at the same time.
        :return: for each request its responses in the order of their arrival, with those of the outputs that each
            has; a response without any of them is left out.
        :raises ModelInvalidError: the server answered with an error.
        :raises TimedOutError: a request's last response did not come within ``timeout_s``.
        """
        if self.settings.inference == "http":
            raise UserError(
                f"the connection {self.settings.conn_id!r} reaches Triton over HTTP only",
                expected="gRPC: only it can carry more than one answer to a request",
                remedy="set the connection's protocol to `grpc`, or leave it empty",
            )
        client, headers = self._grpc.client, self._grpc.headers
        with self._inferring(model_name, version, outputs), translated():
            stream = AnswerStream(client, headers, model_name, version, outputs, self.timeout_s)
            with stream:
                return stream.ask(requests, concurrency)

    @contextmanager
    def _inferring(self, model: str, version: int | None, outputs: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except ErrorAnswerError as error:
            raise inference_error(model, version, ", ".join(outputs), error, self.settings) from error
        except NoAnswerError as error:
            doing = f"asking {calls.named(model, version)}"
            raise unavailable(self.settings, doing, str(error)) from error


def _repeats(call: Call[Any], deadline: float) -> dict[str, Any]:
    """Return when a call that had no answer is sent again: where that is safe, and while there is time."""
    by_count = stop_after_attempt(_ATTEMPTS if call.is_repeatable else 1)
    return {
        "retry": retry_if_exception_type(NoAnswerError),
        "stop": lambda state: by_count(state) or time.monotonic() > deadline,
        "wait": wait_exponential(multiplier=0.1, max=1.0) + wait_random(0.0, 0.1),
        "reraise": True,
    }


def _left(deadline: float) -> float:
    """Return the seconds until a deadline; never none, which a client may take for no limit."""
    return max(0.001, deadline - time.monotonic())
