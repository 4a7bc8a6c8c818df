#!/usr/bin/env python3
"""Asks two versions of a model the same questions, copies of users' requests, and compares the answers.

A router mirrors requests to this program, fire and forget: it answers at once with nothing, and what it says is
thrown away. Each inference request is then sent to the stable version's own address and to the candidate's, and
the two answers are compared output by output: |stable - candidate| <= abs + rel * |stable|. HTTP
(`POST /v2/models/M[/versions/V]/infer`, binary tensors and compressed bodies included) comes in at one port, gRPC
(`ModelInfer`) at another. Everything else is ignored, and so are requests that belong to a sequence or use
shared memory: asked twice, they would change what users get.

It ends when so many requests were compared or the time is up, and writes `result.json` under the destination:
counts, latencies and the largest differences, of which it keeps the numbers and a digest of the request, nothing
else of what users sent.

Exit codes: 0 done; 2 wrong usage; 3 it cannot listen there; 75 try again later (S3 does not answer, the port is
taken); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import hashlib
import importlib.metadata
import json
import math
import platform
import re
import signal
import sys
import time
import traceback
import zlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import grpc
    from aiohttp import ClientSession, web

EXIT_CODES = {
    "UserError": 3,
    "InputMissingError": 3,
    "StoreUnavailableError": 75,
    "TransientError": 75,
    "SlipwayError": 1,
}
MEBIBYTE = 2**20
MAX_REQUEST_BYTES = 64 * MEBIBYTE
MAX_QUEUE_BYTES = 256 * MEBIBYTE
# Our own requests carry it, so that a router which mirrors them too makes no circle.
MARK = "x-slipway-mirror"
INFER_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/[^/]+)?/infer$")
GRPC_METHOD = "/inference.GRPCInferenceService/ModelInfer"
# What belongs to one connection or one router, not to the request.
NOT_PASSED_ON = frozenset(
    {
        "accept-encoding", "connection", "content-length", "content-type", "expect", "grpc-accept-encoding",
        "grpc-timeout", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        "user-agent",
    }
)  # fmt: skip
NOT_PASSED_ON_PREFIXES = ("x-envoy-", "x-forwarded-", ":", "grpc-")
NUMPY_TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
GRPC_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
CLASS_CHANGES_TOLD = 20


class PodError(Exception):
    """Why this run did not end as it should, in the words of the project's error tree."""

    def __init__(
        self,
        kind: str,
        what: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what)
        self.kind, self.what, self.expected, self.found, self.remedy = kind, what, expected, found, remedy

    def __str__(self) -> str:
        details = [("Expected", self.expected), ("Found", self.found), ("Remedy", self.remedy)]
        sentences = [self.what, *(f"{label}: {text}" for label, text in details if text)]
        return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        keys = ("kind", "what", "expected", "found", "remedy")
        return {key: getattr(self, key) for key in keys}


class Store:
    """S3, by the standard AWS_* environment; its errors become PodErrors."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        retries: Any = {"mode": "standard", "total_max_attempts": 4}
        self._client = boto3.client("s3", config=Config(connect_timeout=5, read_timeout=60, retries=retries))

    def write_json(self, value: Mapping[str, Any], url: str) -> None:
        """Writes a value as a JSON object. Raises PodError."""
        bucket, key = split_url(url)
        body = json.dumps(value, indent=2, allow_nan=False).encode()
        self._call(
            url,
            lambda: self._client.put_object(
                Bucket=bucket, Key=key, Body=body, ContentType="application/json"
            ),
        )

    def delete(self, url: str) -> None:
        """Removes an object; one that is not there is no error. Raises PodError."""
        bucket, key = split_url(url)
        self._call(url, lambda: self._client.delete_object(Bucket=bucket, Key=key))

    @staticmethod
    def _call(url: str, act: Callable[[], Any]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            act()
        except NoCredentialsError as error:
            remedy = "give the pod's service account a role that may write the bucket"
            raise PodError("UserError", f"No AWS credentials to reach {url}", remedy=remedy) from error
        except ClientError as error:
            raise store_error(url, error.response) from error
        except (BotoCoreError, OSError) as error:
            raise PodError(
                "StoreUnavailableError",
                f"S3 does not answer for {url}",
                found=f"{type(error).__name__} after 4 attempts",
                remedy="check AWS_ENDPOINT_URL, the network and the store, then run the task again",
            ) from error


def store_error(url: str, response: Mapping[str, Any]) -> PodError:
    """The PodError for an error answer of S3: what is missing, what is forbidden, or what may pass."""
    code = str(response.get("Error", {}).get("Code", "unknown"))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in ("NoSuchKey", "NoSuchBucket") or status == 404:
        return PodError(
            "InputMissingError", f"There is no place {url}", found=code, remedy="check the bucket's name"
        )
    if status in (401, 403):
        return PodError(
            "UserError",
            f"S3 refuses access to {url}",
            found=code,
            remedy="give the pod's service account a role that may write the bucket",
        )
    return PodError(
        "StoreUnavailableError",
        f"S3 fails for {url}",
        found=f"{code} (HTTP {status})",
        remedy="run the task again",
    )


def split_url(url: str) -> tuple[str, str]:
    """`s3://bucket/a/b` → (`bucket`, `a/b`)."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


# ---------------------------------------------------------------- requests


@dataclass(frozen=True)
class Request:
    """One inference request as it came: `path` is that of HTTP, "" for gRPC; the body is not unpacked."""

    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    path: str = ""

    @property
    def protocol(self) -> str:
        """How it came, and is sent on."""
        return "http" if self.path else "grpc"

    @property
    def digest(self) -> str:
        """By which a request is known again, by those who have it."""
        return hashlib.sha256(self.body).hexdigest()[:16]

    def header(self, name: str) -> str:
        """One header; "" where there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


def is_asked_twice_at_a_cost(request: Request) -> bool:
    """Whether it belongs to a sequence, whose state it would change, or reads and writes shared memory.

    What cannot be read does neither: no server will understand it.
    """
    try:
        described = _http_parameters(request) if request.path else _grpc_parameters(request)
    except Exception:  # whatever a client may send
        return False
    own, tensors = described
    return bool(own.get("sequence_id")) or any("shared_memory_region" in one for one in tensors)


def _http_parameters(request: Request) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    body = unpacked(request.body, request.header("content-encoding"))
    length = request.header("inference-header-content-length")
    described = json.loads(body[: int(length)] if length else body)
    tensors = [*described.get("inputs", []), *described.get("outputs", [])]
    return described.get("parameters", {}), [one.get("parameters", {}) for one in tensors]


def _grpc_parameters(request: Request) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest.FromString(request.body)
    own = {
        key: value.int64_param or value.string_param or value.uint64_param
        for key, value in message.parameters.items()
    }
    return own, [one.parameters for one in (*message.inputs, *message.outputs)]


def unpacked(body: bytes, encoding: str) -> bytes:
    """A body without its Content-Encoding, at most `MAX_REQUEST_BYTES` of it. Raises ValueError or zlib.error."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise ValueError(f"unknown encoding {encoding!r}")
    window = zlib.MAX_WBITS | 16 if encoding == "gzip" else zlib.MAX_WBITS
    return zlib.decompressobj(window).decompress(body, MAX_REQUEST_BYTES)


class Inbox:
    """Requests that wait to be compared, a bounded number and a bounded number of bytes; and what came at all."""

    def __init__(self, model: str, limit: int) -> None:
        self.model = model
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self._waiting: deque[Request] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()

    def offer(self, request: Request) -> None:
        """Takes a request, or counts it as dropped: nobody is made to wait."""
        self.counts["received"] += 1
        if request.header(MARK):
            self.counts["ignored"] += 1
        elif len(self._waiting) >= self.limit or self._bytes + len(request.body) > MAX_QUEUE_BYTES:
            self.counts["dropped"] += 1
        else:
            self._waiting.append(request)
            self._bytes += len(request.body)
            self._arrived.set()

    def ignore(self) -> None:
        """Counts what is no inference request of this model."""
        self.counts["received"] += 1
        self.counts["ignored"] += 1

    def drop(self) -> None:
        """Counts what is too large to be kept."""
        self.counts["received"] += 1
        self.counts["dropped"] += 1

    async def take(self) -> Request:
        """The oldest request, once there is one."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        request = self._waiting.popleft()
        self._bytes -= len(request.body)
        return request


# ---------------------------------------------------------------- answers


@dataclass(frozen=True)
class Tensor:
    """One output of an answer, in Triton's words; `values` has `shape`, text as bytes objects."""

    datatype: str
    values: Any

    @property
    def shape(self) -> list[int]:
        """Its dimensions."""
        return [int(size) for size in self.values.shape]


@dataclass(frozen=True)
class Answer:
    """What one version said: outputs by name, or the kind of failure; and how long that took."""

    outputs: Mapping[str, Tensor] | None
    failure: str
    latency_ms: float


def read_http_answer(body: bytes, header_length: str | None) -> dict[str, Tensor]:
    """The outputs of an HTTP answer, JSON or with binary tensors behind it (the V2 protocol's binary extension).

    Raises whatever reading something else raises.
    """
    end = int(header_length) if header_length else len(body)
    outputs, position = {}, end
    for one in json.loads(body[:end])["outputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        if size is None:
            values = from_list(one["datatype"], one["shape"], one["data"])
        else:
            values = from_raw(one["datatype"], one["shape"], body[position : position + size])
            position += size
        outputs[str(one["name"])] = Tensor(str(one["datatype"]), values)
    return outputs


def read_grpc_answer(body: bytes) -> dict[str, Tensor]:
    """The outputs of a ModelInferResponse. Raises whatever reading something else raises."""
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferResponse.FromString(body)
    outputs = {}
    for index, one in enumerate(message.outputs):
        if index < len(message.raw_output_contents):
            values = from_raw(one.datatype, one.shape, message.raw_output_contents[index])
        else:
            values = from_list(
                one.datatype, one.shape, list(getattr(one.contents, GRPC_CONTENTS[one.datatype]))
            )
        outputs[one.name] = Tensor(one.datatype, values)
    return outputs


def from_list(datatype: str, shape: Sequence[int], data: Any) -> Any:
    """A tensor's values from JSON or from typed contents."""
    import numpy as np

    if datatype == "BYTES":
        texts = np.empty(len(data), dtype=object)
        texts[:] = [one.encode() if isinstance(one, str) else one for one in data]
        return texts.reshape(list(shape))
    return np.array(data, dtype=NUMPY_TYPES[datatype]).reshape(list(shape))


def from_raw(datatype: str, shape: Sequence[int], raw: bytes) -> Any:
    """A tensor's values from its bytes: little-endian numbers, or texts that each follow their length."""
    import numpy as np

    if datatype == "BYTES":
        texts, position = [], 0
        while position < len(raw):
            size = int.from_bytes(raw[position : position + 4], "little")
            texts.append(raw[position + 4 : position + 4 + size])
            position += 4 + size
        return from_list(datatype, shape, texts)
    if datatype == "BF16":
        # The upper half of a float32.
        halves = np.frombuffer(raw, dtype="<u2").astype("<u4") << 16
        return halves.view("<f4").reshape(list(shape))
    return np.frombuffer(raw, dtype=NUMPY_TYPES[datatype]).reshape(list(shape))


# ---------------------------------------------------------------- the comparison


@dataclass(frozen=True)
class Difference:
    """One output that differs in one pair of answers; `severity` is in multiples of what is tolerated."""

    output: str
    kind: str
    stable: Any
    candidate: Any
    severity: tuple[float, float]
    index: tuple[int, ...] = ()
    elements: int = 0

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        return {
            "output": self.output,
            "kind": self.kind,
            "stable": self.stable,
            "candidate": self.candidate,
            "index": list(self.index),
            "elements": self.elements,
        }


@dataclass(frozen=True)
class Comparison:
    """One pair of answers: what differs, and for each row the two classes where the class output is there."""

    differences: tuple[Difference, ...]
    compared: tuple[str, ...]
    classes: tuple[tuple[Any, Any], ...] | None = None


def compare(
    stable: Mapping[str, Tensor],
    candidate: Mapping[str, Tensor],
    abs_tolerance: float,
    rel_tolerance: float,
    class_output: str | None,
) -> Comparison:
    """Holds two answers to one request against each other, output by output."""
    names = sorted(stable.keys() | candidate.keys())
    found = []
    for name in names:
        if name not in stable or name not in candidate:
            missing = {"stable": "there", "candidate": "missing"}
            told = missing if name in stable else {"stable": "missing", "candidate": "there"}
            found.append(Difference(name, "output", **told, severity=(math.inf, math.inf)))
            continue
        difference = compare_tensors(name, stable[name], candidate[name], abs_tolerance, rel_tolerance)
        if difference is not None:
            found.append(difference)
    classes = None
    if class_output in stable and class_output in candidate:
        before, after = classes_of(stable[class_output]), classes_of(candidate[class_output])
        if before is not None and after is not None and len(before) == len(after):
            classes = tuple(zip(before, after, strict=True))
    return Comparison(tuple(found), tuple(names), classes)


def compare_tensors(
    name: str, stable: Tensor, candidate: Tensor, abs_tolerance: float, rel_tolerance: float
) -> Difference | None:
    """The difference of two outputs of one name, told by the element that is furthest beyond the tolerance.

    NaN agrees with NaN, an infinity with itself; text must be equal, and is not told, for it may be a user's.
    """
    import numpy as np

    worst = (math.inf, math.inf)
    if stable.datatype != candidate.datatype:
        return Difference(name, "datatype", stable.datatype, candidate.datatype, worst)
    if stable.shape != candidate.shape:
        return Difference(name, "shape", stable.shape, candidate.shape, worst)
    if stable.datatype == "BYTES":
        unlike = np.argwhere(stable.values != candidate.values)
        if not len(unlike):
            return None
        index = tuple(int(place) for place in unlike[0])
        return Difference(name, "text", "not told", "not told", worst, index, len(unlike))
    before, after = stable.values.astype(np.float64), candidate.values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        same = (before == after) | (np.isnan(before) & np.isnan(after))
        distance = np.where(same, 0.0, np.nan_to_num(np.abs(before - after), nan=np.inf))
        allowed = np.nan_to_num(abs_tolerance + rel_tolerance * np.abs(before), posinf=0.0)
        beyond = ~same & ~(distance <= allowed)
        if not beyond.any():
            return None
        excess = np.where(beyond, np.where(allowed > 0, distance / allowed, np.inf), 0.0)
    # Among those that are equally far beyond, the one with the largest distance.
    place = int(np.lexsort((distance.reshape(-1), excess.reshape(-1)))[-1])
    index = tuple(int(one) for one in np.unravel_index(place, before.shape))
    severity = (float(excess.reshape(-1)[place]), float(distance.reshape(-1)[place]))
    shown = (plain(stable.values[index]), plain(candidate.values[index]))
    return Difference(name, "values", *shown, severity, index, int(beyond.sum()))


def classes_of(tensor: Tensor) -> list[Any] | None:
    """The class of each row: of scores (rows, classes) the place of the highest, of whole numbers (rows) themselves.

    None where it is no classification; -1 for a row with a score that is no finite number.
    """
    import numpy as np

    values = tensor.values
    if values.ndim == 0 or values.dtype.kind not in "iuf" or not values.size:
        return None
    flat = values.reshape(values.shape[0], -1)
    if values.dtype.kind in "iu" and flat.shape[1] == 1:
        return [int(one) for one in flat[:, 0]]
    if values.ndim != 2 or flat.shape[1] < 2:
        return None
    finite = np.isfinite(flat).all(axis=1)
    return [int(one) for one in np.where(finite, np.nan_to_num(flat).argmax(axis=1), -1)]


def plain(value: Any) -> Any:
    """A number as JSON can hold it: what is not finite becomes text."""
    number = value.item()
    return number if not isinstance(number, float) or math.isfinite(number) else str(number)


@dataclass
class Tally:
    """All pairs of answers so far, as the report tells them."""

    worst_kept: int
    counts: Counter[str] = field(default_factory=Counter)
    protocols: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Counter[str]] = field(
        default_factory=lambda: {"stable": Counter(), "candidate": Counter()}
    )
    latencies: dict[str, list[float]] = field(default_factory=lambda: {"stable": [], "candidate": []})
    outputs: dict[str, Counter[str]] = field(default_factory=dict)
    class_changes: Counter[tuple[Any, Any]] = field(default_factory=Counter)
    worst: dict[tuple[str, str], tuple[Difference, int]] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """Requests that stable answered: those are what the candidate can be held against."""
        return self.counts["compared"] + self.counts["candidate_failed"]

    def add(self, request: Request, stable: Answer, candidate: Answer, comparison: Comparison | None) -> None:
        """Counts one pair; the comparison is there where both answered."""
        for side, answer in (("stable", stable), ("candidate", candidate)):
            if answer.failure:
                self.failures[side][answer.failure] += 1
        if comparison is None:
            both = bool(stable.failure and candidate.failure)
            self.counts[
                "both_failed" if both else "stable_failed" if stable.failure else "candidate_failed"
            ] += 1
            return
        self.counts["compared"] += 1
        self.protocols[request.protocol] += 1
        # Of answers only: how long a failure takes says nothing about the model.
        self.latencies["stable"].append(stable.latency_ms)
        self.latencies["candidate"].append(candidate.latency_ms)
        self.counts["differ" if comparison.differences else "equal"] += 1
        for name in comparison.compared:
            self.outputs.setdefault(name, Counter())["compared"] += 1
        for difference in comparison.differences:
            self.outputs[difference.output]["differ"] += 1
            self._keep(request.digest, difference)
        if comparison.classes is not None:
            changes = [pair for pair in comparison.classes if pair[0] != pair[1]]
            self.counts["disagree" if changes else "agree"] += 1
            self.rows["compared"] += len(comparison.classes)
            self.rows["agree"] += len(comparison.classes) - len(changes)
            self.class_changes.update(changes)

    def _keep(self, digest: str, difference: Difference) -> None:
        """Keeps the largest differences, each request's and output's once."""
        key = (digest, difference.output)
        known, times = self.worst.get(key, (difference, 0))
        self.worst[key] = (max(known, difference, key=lambda one: one.severity), times + 1)
        if len(self.worst) > self.worst_kept:
            del self.worst[min(self.worst, key=lambda one: self.worst[one][0].severity)]

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        names = (
            "compared", "equal", "differ", "agree", "disagree", "candidate_failed", "stable_failed", "both_failed",
        )  # fmt: skip
        ordered = sorted(self.worst.items(), key=lambda one: one[1][0].severity, reverse=True)
        changes = self.class_changes.most_common(CLASS_CHANGES_TOLD)
        return {
            "counts": {name: self.counts[name] for name in names},
            "protocols": {name: self.protocols[name] for name in ("http", "grpc")},
            "rows": {name: self.rows[name] for name in ("compared", "agree")},
            "outputs": {
                name: {"compared": found["compared"], "differ": found["differ"]}
                for name, found in sorted(self.outputs.items())
            },
            "failures": {side: dict(found.most_common()) for side, found in self.failures.items()},
            "latency_ms": {side: quantiles(found) for side, found in self.latencies.items()},
            "class_changes": [
                {"stable": before, "candidate": after, "rows": rows} for (before, after), rows in changes
            ],
            "differences": [
                {"request": digest, **difference.to_json(), "times": times}
                for (digest, _), (difference, times) in ordered
            ],
        }


def quantiles(latencies_ms: Sequence[float]) -> dict[str, float] | None:
    """Average and nearest-rank percentiles in milliseconds; None where nothing was measured."""
    if not latencies_ms:
        return None
    ordered = sorted(latencies_ms)
    ranks = {
        f"p{percent}": ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1]
        for percent in (50, 90, 99)
    }
    return {name: round(value, 3) for name, value in {"avg": sum(ordered) / len(ordered), **ranks}.items()}


# ---------------------------------------------------------------- asking both


class Side:
    """One version, at its own address, with the connections to it: see `open_side`."""

    def __init__(
        self, url: str, host: str, timeout_s: float, session: ClientSession, channel: grpc.aio.Channel
    ) -> None:
        self.url = url.rstrip("/")
        self.host = host
        self.timeout_s = timeout_s
        self._session = session
        self._channel = channel

    async def ask(self, request: Request) -> Answer:
        """The version's answer; a failure is an answer too."""
        began = time.monotonic()
        outputs, failure = await (self._ask_http(request) if request.path else self._ask_grpc(request))
        return Answer(outputs, failure, 1000 * (time.monotonic() - began))

    async def _ask_http(self, request: Request) -> tuple[dict[str, Tensor] | None, str]:
        import aiohttp
        from yarl import URL

        headers = [
            ("Host", self.host),
            (MARK, "1"),
            # As it is: the answer is compared, not stored.
            ("Accept-Encoding", "identity"),
            *((name, value) for name, value in request.headers if name.lower() == "content-type"),
            *passed_on(request.headers),
        ]
        try:
            async with self._session.post(
                URL(self.url + request.path, encoded=True),
                data=request.body,
                headers=headers,
                allow_redirects=False,
                server_hostname=self.host.partition(":")[0] if self.url.startswith("https:") else None,
            ) as response:
                body = await response.read()
        except TimeoutError:
            return None, "time limit"
        except (aiohttp.ClientError, OSError):
            return None, "no answer"
        if response.status != 200:
            return None, f"HTTP {response.status}"
        return self._read(
            lambda: read_http_answer(body, response.headers.get("Inference-Header-Content-Length"))
        )

    async def _ask_grpc(self, request: Request) -> tuple[dict[str, Tensor] | None, str]:
        import grpc

        call = self._channel.unary_unary(GRPC_METHOD)
        metadata = ((MARK, "1"), *passed_on(request.headers))
        try:
            body = await call(request.body, timeout=self.timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            return None, f"gRPC {error.code().name}"
        return self._read(lambda: read_grpc_answer(body))

    @staticmethod
    def _read(read: Callable[[], dict[str, Tensor]]) -> tuple[dict[str, Tensor] | None, str]:
        try:
            return read(), ""
        except Exception:  # whatever a server may send
            return None, "unreadable answer"


@contextlib.asynccontextmanager
async def open_side(url: str, host: str, timeout_s: float) -> AsyncIterator[Side]:
    """One version: `url` says where to connect, `host` whom to ask for there; connections are made when needed."""
    import aiohttp
    import grpc

    parts = urlsplit(url)
    secure = parts.scheme == "https"
    target = f"{parts.hostname}:{parts.port or (443 if secure else 80)}"
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # What fails is counted, not tried again.
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.ssl_target_name_override", host.partition(":")[0])
        if secure
        else ("grpc.default_authority", host),
    ]
    channel = (
        grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
        if secure
        else grpc.aio.insecure_channel(target, options)
    )
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
    )
    async with session, channel:
        yield Side(url, host, timeout_s, session, channel)


def passed_on(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that are the request's own."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in NOT_PASSED_ON and not name.lower().startswith(NOT_PASSED_ON_PREFIXES)
    ]


# ---------------------------------------------------------------- listening


@contextlib.asynccontextmanager
async def http_server(inbox: Inbox, host: str, port: int) -> AsyncIterator[None]:
    """Takes mirrored HTTP requests while the context lasts. Raises PodError where it cannot listen."""
    from aiohttp import web

    async def take(request: web.Request) -> web.Response:
        found = INFER_PATH.search(request.rel_url.raw_path)
        if request.method != "POST" or found is None or found[1] != inbox.model:
            inbox.ignore()
            return web.Response()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            inbox.drop()
            return web.Response()
        inbox.offer(Request(body, tuple(request.headers.items()), found[0]))
        return web.Response()

    application = web.Application(client_max_size=MAX_REQUEST_BYTES)
    application.router.add_route("*", "/{path:.*}", take)
    # Bodies stay packed: they are sent on as they came.
    runner = web.AppRunner(application, access_log=None, auto_decompress=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise cannot_listen(host, port, error) from error
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def grpc_server(inbox: Inbox, host: str, port: int) -> AsyncIterator[None]:
    """Takes mirrored gRPC requests while the context lasts. Raises PodError where it cannot listen."""
    import grpc
    from google.protobuf.message import DecodeError
    from tritonclient.grpc import service_pb2

    def names_the_model(body: bytes) -> bool:
        try:
            return bool(service_pb2.ModelInferRequest.FromString(body).model_name == inbox.model)
        except DecodeError:
            return False

    async def take(body: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        if not names_the_model(body):
            inbox.ignore()
            return b""
        texts = [(key, value) for key, value in context.invocation_metadata() if isinstance(value, str)]
        inbox.offer(Request(body, tuple(texts)))
        # An empty message is a ModelInferResponse.
        return b""

    class Takes(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            if details.method == GRPC_METHOD:
                return grpc.unary_unary_rpc_method_handler(take)
            inbox.ignore()
            return None

    options = [
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        # Two programs must not share a port unawares.
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.aio.server(handlers=[Takes()], options=options)
    try:
        server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise cannot_listen(host, port, error) from error
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=0.5)


def cannot_listen(host: str, port: int, error: Exception) -> PodError:
    """The error for an address that is taken, or is none of this machine's."""
    number = getattr(error, "errno", None)
    wrong = number in (errno.EADDRNOTAVAIL, errno.EACCES) or (number is not None and number < 0)
    return PodError(
        "UserError" if wrong else "TransientError",
        f"Cannot listen on {host}:{port}",
        expected="an address of this pod and a port that is free",
        found=type(error).__name__ if number is None else errno.errorcode.get(number, str(number)),
        remedy="correct the connection slipway_mirror, or wait until who listens there has ended",
    )


# ---------------------------------------------------------------- the run


async def work(
    inbox: Inbox, stable: Side, candidate: Side, tally: Tally, options: argparse.Namespace
) -> None:
    """Takes requests and asks both versions at once, until enough are judged."""
    while tally.judged < options.requests:
        request = await inbox.take()
        if is_asked_twice_at_a_cost(request):
            inbox.counts["ignored"] += 1
            continue
        ours, theirs = await asyncio.gather(stable.ask(request), candidate.ask(request))
        if tally.judged >= options.requests:
            return
        comparison = None
        if ours.outputs is not None and theirs.outputs is not None:
            comparison = compare(
                ours.outputs,
                theirs.outputs,
                options.abs_tolerance,
                options.rel_tolerance,
                options.class_output,
            )
        tally.add(request, ours, theirs, comparison)


async def listen_and_compare(options: argparse.Namespace, payload: dict[str, Any]) -> None:
    """The whole run but the result; fills `payload`, so that a failure still tells what was seen."""
    inbox, tally = Inbox(options.model, options.queue), Tally(options.worst)
    try:
        async with (
            open_side(options.stable_url, options.stable_host, options.request_timeout_s) as stable,
            open_side(options.candidate_url, options.candidate_host, options.request_timeout_s) as candidate,
            http_server(inbox, options.host, options.port),
            grpc_server(inbox, options.host, options.grpc_port),
        ):
            say(
                "listen", f"HTTP on {options.host}:{options.port}, gRPC on {options.host}:{options.grpc_port}"
            )
            await until_enough(inbox, stable, candidate, tally, options)
    finally:
        found = tally.to_json()
        arrived = {name: inbox.counts[name] for name in ("received", "ignored", "dropped")}
        payload |= found | {"counts": arrived | found["counts"]}
        payload["ended"] = "enough" if tally.judged >= options.requests else "time"


async def until_enough(
    inbox: Inbox, stable: Side, candidate: Side, tally: Tally, options: argparse.Namespace
) -> None:
    """Works until enough requests are judged or the time is up."""
    workers = [
        asyncio.create_task(work(inbox, stable, candidate, tally, options))
        for _ in range(options.concurrency)
    ]
    try:
        # The first that ends has seen that it is enough, or has failed.
        done, _ = await asyncio.wait(workers, timeout=options.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def tool_versions() -> dict[str, str]:
    """The versions of what had a hand in the result."""
    names = ("aiohttp", "grpcio", "numpy", "tritonclient")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}


def s3_url(text: str) -> str:
    """An argument that must be an S3 address with a key, returned without a trailing slash."""
    bucket, key = split_url(text)
    if not text.startswith("s3://") or not bucket or not key:
        raise argparse.ArgumentTypeError(f"expected s3://BUCKET/KEY, found {text!r}")
    return text.rstrip("/")


def http_url(text: str) -> str:
    """An argument that must be the address of an HTTP server."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"expected http(s)://HOST[:PORT], found {text!r}")
    return text


def number(text: str) -> float:
    """An argument that must be a finite number, 0 or above."""
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"expected a number of 0 or above, found {text!r}")
    return value


def positive(text: str) -> float:
    """An argument that must be a finite number above 0."""
    value = number(text)
    if not value:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def count(text: str) -> int:
    """An argument that must be a whole number of 1 or above."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text!r}")
    return value


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", required=True, metavar="NAME", help="requests for other models are ignored")
    for side, whose in (("stable", "the stable version's"), ("candidate", "the candidate's")):
        add(f"--{side}-url", required=True, type=http_url, metavar="URL", help=f"{whose} own address")
        add(f"--{side}-host", metavar="HOST", help="the host to ask it for (default: the URL's)")
    add("--abs-tolerance", type=number, default=1e-4, metavar="X", help="(default: %(default)s)")
    add("--rel-tolerance", type=number, default=1e-3, metavar="X", help="(default: %(default)s)")
    add("--class-output", metavar="NAME", help="the output whose highest score, or value, is the class")
    add("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    add("--port", type=count, default=8080, help="for HTTP (default: %(default)s)")
    add("--grpc-port", type=count, default=8081, help="for gRPC (default: %(default)s)")
    add("--requests", type=count, default=200, metavar="N", help="to compare (default: %(default)s)")
    add(
        "--timeout-s",
        type=positive,
        default=600.0,
        metavar="S",
        help="limit of the run (default: %(default)s)",
    )
    add(
        "--request-timeout-s",
        type=positive,
        default=30.0,
        metavar="S",
        help="of one answer (default: %(default)s)",
    )
    add("--concurrency", type=count, default=4, metavar="N", help="pairs in flight (default: %(default)s)")
    add("--queue", type=count, default=256, metavar="N", help="requests that may wait (default: %(default)s)")
    add("--worst", type=count, default=50, metavar="N", help="differences to keep (default: %(default)s)")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    options = parser.parse_args(argv)
    options.stable_host = options.stable_host or urlsplit(options.stable_url).netloc
    options.candidate_host = options.candidate_host or urlsplit(options.candidate_url).netloc
    return options


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def unexpected(error: BaseException) -> PodError:
    """The error for what this program did not foresee; the log holds the traceback."""
    return PodError(
        "SlipwayError",
        "The comparison failed in a way it does not know",
        found=f"{type(error).__name__}: {first_line(error)}",
        remedy="read the pod's log for the traceback, and report it",
    )


def stop(signal_number: int, _: object) -> None:
    """Ends by way of every `finally`."""
    raise SystemExit(128 + signal_number)


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    signal.signal(signal.SIGTERM, stop)
    started = time.monotonic()
    failure: PodError | None = None
    payload: dict[str, Any] = {}
    store: Store | None = None
    try:
        store = Store()
        # A result of an earlier attempt must never be taken for this one's.
        store.delete(f"{options.destination}/result.json")
        asyncio.run(listen_and_compare(options, payload))
    except PodError as error:
        failure = error
    except Exception as error:  # whatever it is, the result must tell
        traceback.print_exc()
        failure = unexpected(error)
    code = EXIT_CODES[failure.kind] if failure else 0
    result = {
        "outcome": "error" if failure else "done",
        "error": failure.to_json() if failure else None,
        **payload,
        "tools": tool_versions(),
        "seconds": round(time.monotonic() - started, 3),
    }
    if store is not None and (failure is None or failure.kind != "StoreUnavailableError"):
        try:
            store.write_json(result, f"{options.destination}/result.json")
        except PodError as error:
            failure = failure or error
            code = code or EXIT_CODES[error.kind]
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr, flush=True)
    else:
        counts = result["counts"]
        say(
            "done",
            f"{counts['compared']} compared, {counts['differ']} differ, {counts['candidate_failed']} failed",
        )
    return code


if __name__ == "__main__":
    raise SystemExit(main())
