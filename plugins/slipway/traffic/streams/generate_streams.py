"""Requests to Triton's `/generate_stream`: JSON in, server-sent events out, errors inside the events of an HTTP 200."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np

from slipway.hooks.ingress import Endpoint
from slipway.traffic.streams.answer import (
    ANSWER_BYTES_LIMIT,
    RESPONSES_LIMIT,
    StreamedAnswer,
    clipped,
    missing_outputs,
)
from slipway_core.errors import UserError
from slipway_core.tensors import TensorSpec

_TYPE = "text/event-stream"


class _NoAnswerError(Exception):
    """What came is no answer; the text says why."""


class GenerateStreams:
    """Streams of events from one revision.

    :param endpoint: where it is reached, and by which host.
    :param outputs: what the events of an answer must hold, all together.
    :param timeout_s: limit from a request to the end of its events.
    """

    def __init__(self, endpoint: Endpoint, model: str, outputs: Sequence[str], timeout_s: float) -> None:
        self._url = f"{endpoint.base_url}/v2/models/{model}/generate_stream"
        self._headers = {"Host": endpoint.host, "Content-Type": "application/json", "Accept": _TYPE}
        self._outputs = tuple(outputs)
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def ask(self, body: bytes) -> StreamedAnswer:
        """Post one request and read its events to the end of the response."""
        began = time.perf_counter()
        responses, seen, fault = 0, set[str](), ""
        try:
            async with self._session.post(
                self._url, data=body, headers=self._headers, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    answered = (await answer.content.read(1000)).decode(errors="replace")
                    raise _NoAnswerError(f"HTTP {answer.status}: {answered}")
                if answer.content_type != _TYPE:
                    raise _NoAnswerError(f"{answer.content_type} where {_TYPE} was expected")
                async for event in events_of(answer.content.iter_any()):
                    seen |= set(event)
                    responses += 1
        except _NoAnswerError as error:
            fault = clipped(str(error))
        except TimeoutError:
            fault = f"the events did not end in time, after {responses} of them"
        except (aiohttp.ClientError, OSError) as error:
            fault = clipped(f"{type(error).__name__}: {error}")
        fault = fault or missing_outputs(self._outputs, seen, responses)
        return StreamedAnswer(time.perf_counter() - began, responses, fault)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


async def events_of(parts: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the data of each server-sent event, a JSON object.

    :raises _NoAnswerError: an event reports an error, is not a JSON object, or there are too many.
    """
    rest, size, count = b"", 0, 0
    async for part in parts:
        size += len(part)
        if size > ANSWER_BYTES_LIMIT:
            raise _NoAnswerError(f"more than {ANSWER_BYTES_LIMIT} bytes for one request")
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            event = _event(line)
            if event is None:
                continue
            count += 1
            if count > RESPONSES_LIMIT:
                raise _NoAnswerError(f"more than {RESPONSES_LIMIT} events for one request")
            yield event
    if rest.strip():
        raise _NoAnswerError("the response ended in the middle of an event")


def _event(line: bytes) -> dict[str, Any] | None:
    """Return the object on a line of data; None: the line holds no data."""
    name, _, value = line.partition(b":")
    if name.strip() != b"data":
        return None
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):
        raise _NoAnswerError(f"an event is not JSON: {value[:100]!r}") from None
    if not isinstance(event, dict):
        raise _NoAnswerError(f"an event is not a JSON object: {value[:100]!r}")
    if "error" in event:
        raise _NoAnswerError(str(event["error"]) or "an event reports an error without a message")
    return event


def generate_body(inputs: Sequence[TensorSpec], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a request's JSON: each input's values by name, a single one as itself.

    :raises UserError: an input has several dimensions beside that of the batch, or bytes that are no text; this
        interface takes neither.
    """
    values: dict[str, Any] = {}
    for spec in (one for one in inputs if one.name in arrays):
        array = arrays[spec.name]
        if sum(length > 1 for length in array.shape) > 1:
            raise _unsuited(spec.name, f"the shape {list(array.shape)}")
        try:
            flat = [one.decode() if isinstance(one, bytes) else one for one in array.reshape(-1).tolist()]
        except UnicodeDecodeError:
            raise _unsuited(spec.name, "bytes that are not UTF-8 text") from None
        values[spec.name] = flat[0] if len(flat) == 1 else flat
    return json.dumps(values).encode()


def _unsuited(name: str, found: str) -> UserError:
    return UserError(
        f"the golden row's input `{name}` cannot be sent to /generate_stream",
        expected="numbers or texts in one dimension",
        found=found,
        remedy="if the model can be reached by gRPC, write `rollout.streaming: {protocol: grpc}` in the release file",
    )
