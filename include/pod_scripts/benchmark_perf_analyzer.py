#!/usr/bin/env python3
"""Measures a model on a Triton with perf_analyzer, and another one beside it in the same run.

The requests are rows of the golden set. Each round measures the candidate and the baseline with a fixed
number of requests after a warm-up, in turns, so that what slows the machine meets both. Latencies and
throughput are computed from the time stamps of the single requests. Writes `raw/ROLE-ROUND.json` and, last,
`result.json` under the destination.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the candidate fails requests; 75 try again later (S3
or Triton does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.metadata
import json
import math
import mmap
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXIT_CODES = {
    "UserError": 3,
    "InputMissingError": 3,
    "GoldenSetError": 3,
    "BenchmarkRefusedError": 4,
    "StoreUnavailableError": 75,
    "ServerUnavailableError": 75,
    "TimedOutError": 75,
    "SlipwayError": 1,
}
MAX_ROWS = 256
MAX_INPUT_BYTES = 8 * 2**20
READY_TIMEOUT_S = 30.0
# perf_analyzer ends with 2 when its own stability test is not content; the requests were made all the same.
MEASURED = (0, 2)
# How perf_analyzer says that the server answered a request with an error.
REFUSED_REQUEST = re.compile(r"thread \[\d+\] had error", re.IGNORECASE)
HANG_GRACE_S = 5.0


class PodError(Exception):
    """Why this run did not pass, in the words of the project's error tree."""

    def __init__(
        self,
        kind: str,
        what: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.kind, self.what, self.expected, self.found, self.remedy = kind, what, expected, found, remedy
        self.payload = dict(payload or {})

    def __str__(self) -> str:
        details = [("Expected", self.expected), ("Found", self.found), ("Remedy", self.remedy)]
        sentences = [self.what, *(f"{label}: {text}" for label, text in details if text)]
        return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)

    def __reduce__(self) -> tuple[Any, ...]:
        # The keywords travel between processes in the state.
        return (type(self), (self.kind, self.what), self.__dict__)

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

    def download(self, url: str, target: Path) -> None:
        """Writes an object to a file. Raises PodError."""
        bucket, key = split_url(url)
        self._call(url, lambda: self._client.download_file(bucket, key, str(target)))

    def upload(self, source: Path, url: str) -> None:
        """Writes a file to an object. Raises PodError."""
        bucket, key = split_url(url)
        self._call(url, lambda: self._client.upload_file(str(source), bucket, key))

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
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            act()
        except NoCredentialsError as error:
            remedy = "give the pod's service account a role that may read and write the bucket"
            raise PodError("UserError", f"No AWS credentials to reach {url}", remedy=remedy) from error
        except ClientError as error:
            raise store_error(url, error.response) from error
        except (BotoCoreError, Boto3Error, OSError) as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, ClientError):
                raise store_error(url, cause.response) from error
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
            "InputMissingError",
            f"There is no {url}",
            expected="an object that can be read",
            found=code,
            remedy="put the object there, or correct `source` in the release file",
        )
    if status in (401, 403):
        return PodError(
            "UserError",
            f"S3 refuses access to {url}",
            found=code,
            remedy="give the pod's service account a role that may read and write the bucket",
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


def s3_url(text: str) -> str:
    """An argument that must be an S3 address with a key, returned without a trailing slash."""
    bucket, key = split_url(text)
    if not text.startswith("s3://") or not bucket or not key:
        raise argparse.ArgumentTypeError(f"expected s3://BUCKET/KEY, found {text!r}")
    return text.rstrip("/")


def positive(text: str) -> float:
    """An argument that must be a finite number above 0."""
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


@dataclass(frozen=True)
class Subject:
    """What is measured: `candidate` or `baseline`, and the model and version on the server."""

    role: str
    model: str
    version: str

    def __str__(self) -> str:
        return f"{self.role} {self.model} version {self.version}"


class Server:
    """Triton over gRPC: whether it serves a model, and what that model takes."""

    def __init__(self, address: str, timeout_s: float) -> None:
        """Waits until the server answers. Raises PodError (ServerUnavailableError)."""
        import tritonclient.grpc

        self._address = address
        self._client = tritonclient.grpc.InferenceServerClient(address)
        deadline = Deadline(timeout_s)
        while not self._is_live():
            if not deadline.remaining_s():
                raise PodError(
                    "ServerUnavailableError",
                    f"Triton at {address} does not answer",
                    expected=f"an answer within {timeout_s:g} s",
                    found="none",
                    remedy="check that the staging server runs and this is its gRPC port, then try again",
                )
            time.sleep(min(0.5, deadline.remaining_s()))

    def _is_live(self) -> bool:
        """Not whether it calls itself ready: a server on which any other model failed to load does not."""
        from tritonclient.utils import InferenceServerException

        try:
            return bool(self._client.is_server_live(client_timeout=5.0))
        except InferenceServerException:
            return False

    def describe(self, subject: Subject) -> tuple[dict[str, Any], bool]:
        """The model's metadata, and whether the server adds the batch dimension. Raises PodError."""
        named = self._named(subject)
        self.require_serving(subject)
        metadata = self._ask(subject, lambda: self._client.get_model_metadata(as_json=True, **named))
        config = self._ask(subject, lambda: self._client.get_model_config(as_json=True, **named))
        return dict(metadata), int(config["config"].get("max_batch_size", 0)) > 0

    def require_serving(self, subject: Subject) -> None:
        """Raises PodError (ServerUnavailableError) unless the model is ready now."""
        if not self._ask(subject, lambda: self._client.is_model_ready(**self._named(subject))):
            raise PodError(
                "ServerUnavailableError",
                f"The {subject} is not ready on Triton at {self._address}",
                expected="a loaded model",
                found="not ready",
                remedy="load it there first, then run the task again",
            )

    @staticmethod
    def _named(subject: Subject) -> dict[str, Any]:
        return {"model_name": subject.model, "model_version": subject.version, "client_timeout": 10.0}

    def _ask(self, subject: Subject, question: Callable[[], Any]) -> Any:
        from tritonclient.utils import InferenceServerException

        try:
            return question()
        except InferenceServerException as error:
            raise PodError(
                "ServerUnavailableError",
                f"Triton at {self._address} does not tell about the {subject}",
                found=first_line(error),
                remedy="check that the model is loaded and the server runs, then run the task again",
            ) from error


class Deadline:
    """A limit in seconds that starts now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def remaining_s(self) -> float:
        """What is left, never below 0."""
        return max(0.0, self._end - time.monotonic())


# ---------------------------------------------------------------- other programs


# The kernel ends the program with us, should we be killed.
LAUNCHER = (
    "import ctypes, os, signal, sys; "
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def run_program(command: Sequence[str], log: Path, deadline: Deadline, environment: Mapping[str, str]) -> int:
    """Runs a load generator in a process group of its own, its output in `log`; returns its exit code.

    Whatever happens, the whole group is gone afterwards. Raises PodError (TimedOutError).
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            process_group=0,
        )
        try:
            return wait_for_end(process, log, deadline)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_end(process: subprocess.Popen[bytes], log: Path, deadline: Deadline) -> int:
    """The exit code of a load generator; -9 for one that hangs after it said that a request was refused."""
    while deadline.remaining_s():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(0.5, deadline.remaining_s()))
        if REFUSED_REQUEST.search(log.read_text(errors="replace")):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(HANG_GRACE_S)
            return -signal.SIGKILL
    raise out_of_time(deadline)


def out_of_time(deadline: Deadline) -> PodError:
    """The error for a benchmark that reached its limit."""
    return PodError(
        "TimedOutError",
        "The benchmark did not finish in time",
        expected=f"all rounds within {deadline.timeout_s:g} s",
        found="still at work",
        remedy="raise benchmark.timeout_s, or lower benchmark.requests, in the release file",
    )


def find_program(name: str) -> str:
    """The program's full path. Raises PodError when the image does not hold it."""
    path = shutil.which(name)
    if path is None:
        raise PodError(
            "UserError",
            f"There is no {name} in this image",
            expected=f"{name} on PATH",
            found=os.environ.get("PATH", ""),
            remedy="correct benchmark.image in the release file: it must fit benchmark.generator",
        )
    return path


def ended_badly(server: Server, subject: Subject, program: str, code: int, log: Path) -> PodError:
    """Why the load generator ended without a measurement. Raises PodError itself when the server is gone.

    The log is asked, not the server's statistics: Triton counts an error that a Python model answers as
    success.
    """
    print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
    server.require_serving(subject)
    text = complaint(log)
    found = f"{program} ended with exit code {code}: {text}"
    if not REFUSED_REQUEST.search(text):
        remedy = "read the pod's log, and report it"
        return PodError("SlipwayError", f"The {subject} could not be measured", found=found, remedy=remedy)
    return refused(subject, found)


def refused(subject: Subject, found: str) -> PodError:
    """A request was answered with an error: the candidate is refused, or the baseline cannot take the set."""
    candidate = subject.role == "candidate"
    return PodError(
        "BenchmarkRefusedError" if candidate else "UserError",
        f"The {subject} fails requests",
        expected="an answer to every request",
        found=found,
        remedy="send it the golden set's rows one by one to see which it cannot take"
        if candidate
        else "the stable version cannot answer this golden set: correct the set",
    )


def complaint(log: Path) -> str:
    """The line of a program's output that says what went wrong."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for pattern in (REFUSED_REQUEST.pattern, r"\berror\b", r"fail"):
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return line[:300]
    return (lines[-1] if lines else "it said nothing")[:300]


# ---------------------------------------------------------------- the requests


def write_requests(golden: Path, name: str, metadata: Mapping[str, Any], batched: bool, target: Path) -> int:
    """Writes perf_analyzer's input file from rows spread over the golden set; returns their number.

    `metadata` is Triton's of the model; `batched` says that the server adds the batch dimension itself.
    Raises PodError (GoldenSetError) when the golden set does not hold the model's inputs.
    """
    inputs = list(metadata["inputs"])
    arrays = read_arrays(golden, name)
    missing = [item["name"] for item in inputs if item["name"] not in arrays]
    if missing:
        raise PodError(
            "GoldenSetError",
            f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            expected=f"one array for each input of the model: {', '.join(item['name'] for item in inputs)}",
            found=", ".join(sorted(arrays)) or "no array",
            remedy="name the arrays after the model's inputs",
        )
    columns = {item["name"]: arrays[item["name"]] for item in inputs}
    rows = {column: len(array) if array.ndim else 0 for column, array in columns.items()}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise PodError(
            "GoldenSetError",
            f"The columns of {name} do not have one and the same number of rows",
            expected="at least one row, as many in each column",
            found=", ".join(f"{column}: {count}" for column, count in rows.items()),
            remedy="write the golden set again from whole rows",
        )
    chosen = spread(next(iter(rows.values())), sum(array[0].nbytes for array in columns.values()))
    steps = [{column: as_content(array[row], batched) for column, array in columns.items()} for row in chosen]
    target.write_text(json.dumps({"data": steps}))
    return len(steps)


def read_arrays(path: Path, name: str) -> dict[str, Any]:
    """All arrays of a golden set. Raises PodError (GoldenSetError)."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise PodError(
            "GoldenSetError",
            f"{name} cannot be read",
            expected="a NumPy .npz archive without pickled objects",
            found=f"{path.stat().st_size} bytes, {first_line(error)}",
            remedy="write it with numpy.savez(path, INPUT=…, LABEL=…) from arrays of numbers or strings",
        ) from error


def spread(rows: int, row_bytes: int) -> list[int]:
    """Indices of rows spread evenly over the set, as many as stay within the limits, at least one."""
    count = max(1, min(rows, MAX_ROWS, MAX_INPUT_BYTES // max(1, row_bytes)))
    return [index * rows // count for index in range(count)]


def as_content(value: Any, batched: bool) -> dict[str, Any]:
    """One input of one request in perf_analyzer's form; numbers as their bytes, so that no digit is lost."""
    shape = list(value.shape) if batched else [1, *value.shape]
    if value.dtype.kind in "US":
        texts = value.astype(str).reshape(-1).tolist()
        return {"content": texts, "shape": shape or [1]}
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return {"content": {"b64": base64.b64encode(little.tobytes()).decode()}, "shape": shape or [1]}


# ---------------------------------------------------------------- the measurement


def measure(
    server: Server,
    subject: Subject,
    number: int,
    requests: Path,
    workdir: Path,
    deadline: Deadline,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One round of one model: returns a measurement, leaves `ROLE-ROUND.json` in the work folder."""
    export = workdir / f"{subject.role}-{number}.export.json"
    log = workdir / f"{subject.role}-{number}.log"
    command = [
        find_program("perf_analyzer"),
        "-m",
        subject.model,
        "-x",
        subject.version,
        "-u",
        options.server,
        "-i",
        "grpc",
        "--concurrency-range",
        f"{options.concurrency}:{options.concurrency}",
        "--request-count",
        str(options.requests),
        "--warmup-request-count",
        str(options.warmup_requests),
        "--input-data",
        str(requests),
        "--profile-export-file",
        str(export),
        "--stability-percentage",
        "999",
        "--max-trials",
        "1",
    ]
    code = run_program(command, log, deadline, {})
    spans = read_spans(export) if code in MEASURED and export.exists() else []
    if len(spans) < options.requests:
        raise ended_badly(server, subject, "perf_analyzer", code, log)
    export.unlink()
    raw = {"role": subject.role, "model": subject.model, "version": subject.version, "round": number}
    (workdir / f"{subject.role}-{number}.json").write_text(json.dumps({**raw, "requests_ns": spans}))
    return {"role": subject.role, "round": number, "concurrency": options.concurrency, **figures(spans)}


def read_spans(export: Path) -> list[tuple[int, int]]:
    """Start and end of each request in ns, from perf_analyzer's profile export, not read whole into memory.

    The export holds every input and output as text: for images that comes to gigabytes. Inside a JSON string
    a quote is escaped, so these patterns cannot match in the contents of a tensor.
    """
    with export.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        starts = [int(found[1]) for found in re.finditer(rb'\{"timestamp":(\d+),', content)]
        answers = re.findall(rb'"response_timestamps":\[([\d,]*)\]', content)
    if len(starts) != len(answers):
        raise ValueError(f"{len(starts)} requests but {len(answers)} lists of answers in the profile export")
    return [
        (start, int(times.rsplit(b",", 1)[-1])) for start, times in zip(starts, answers, strict=True) if times
    ]


def figures(spans: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Throughput over the time from the first request to the last answer, and latencies in ms."""
    latencies_ms = sorted((end - start) / 1e6 for start, end in spans)
    seconds = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9
    return {
        "requests": len(spans),
        "errors": 0,
        "throughput_rps": round(len(spans) / seconds, 3),
        "avg_ms": round(sum(latencies_ms) / len(latencies_ms), 4),
        **{f"p{percent}_ms": round(percentile(latencies_ms, percent), 4) for percent in (50, 90, 95, 99)},
        "ttft_ms": None,
        "itl_ms": None,
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `percent` of all do not exceed."""
    return ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1]


# ---------------------------------------------------------------- the run


def execute(store: Store, options: argparse.Namespace, payload: dict[str, Any]) -> None:
    """Measures all rounds; fills `payload` as it goes, so that a failure still tells what was measured."""
    # A result of an earlier attempt must never be taken for this one's.
    store.delete(f"{options.destination}/result.json")
    subjects = chosen_subjects(options)
    deadline = Deadline(options.timeout_s)
    measurements: list[dict[str, Any]] = payload.setdefault("measurements", [])
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        workdir = Path(folder)
        store.download(options.golden, workdir / "golden.npz")
        server = Server(options.server, min(READY_TIMEOUT_S, options.timeout_s))
        requests = {}
        for subject in subjects:
            metadata, batched = server.describe(subject)
            requests[subject] = workdir / f"{subject.role}.requests.json"
            rows = write_requests(
                workdir / "golden.npz", options.golden, metadata, batched, requests[subject]
            )
            say("prepare", f"{subject}, {rows} golden rows")
        for number in range(1, options.rounds + 1):
            # Who goes first changes from round to round: neither always finds the warmer machine.
            for subject in subjects if number % 2 else subjects[::-1]:
                measured = measure(server, subject, number, requests[subject], workdir, deadline, options)
                measurements.append(measured)
                say("measure", describe(measured, options.rounds))
                store.upload(
                    workdir / f"{subject.role}-{number}.json",
                    f"{options.destination}/raw/{subject.role}-{number}.json",
                )


def program_version(name: str) -> str:
    """What a program says of itself, or that it is not there."""
    path = shutil.which(name)
    if path is None:
        return "not there"
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r"\d+(?:\.\d+)+", answer.stdout + answer.stderr)
    return found[0] if found else "unknown"


def count(text: str) -> int:
    """An argument that must be a whole number of 1 or above."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text!r}")
    return value


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """What every load generator is told."""
    parser.add_argument(
        "--server", required=True, metavar="HOST:GRPC_PORT", help="the staging Triton's gRPC address"
    )
    parser.add_argument(
        "--candidate", required=True, metavar="NAME", help="the candidate's name on the server"
    )
    parser.add_argument("--candidate-version", required=True, metavar="V", help="its version")
    parser.add_argument(
        "--baseline", metavar="NAME", help="the stable version's name on the server, if there is one"
    )
    parser.add_argument("--baseline-version", metavar="V", help="its version")
    parser.add_argument("--concurrency", type=count, default=2, metavar="N", help="requests in flight")
    parser.add_argument("--requests", type=count, default=200, metavar="N", help="measured requests a round")
    parser.add_argument(
        "--warmup-requests", type=count, default=20, metavar="N", help="unmeasured requests before them"
    )
    parser.add_argument(
        "--rounds", type=count, default=2, metavar="N", help="how often each model is measured"
    )
    parser.add_argument(
        "--timeout-s", type=positive, default=300.0, metavar="S", help="limit for all rounds together"
    )
    parser.add_argument(
        "--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX"
    )


def checked(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """The options, once those that hang together do so; else ends with exit code 2."""
    if bool(options.baseline) != bool(options.baseline_version):
        parser.error("--baseline and --baseline-version belong together")
    if options.requests < options.concurrency:
        parser.error(
            f"--requests must be at least --concurrency ({options.concurrency}), found {options.requests}"
        )
    # The load generator wants at least one warm-up request for each that is in flight.
    options.warmup_requests = max(options.warmup_requests, options.concurrency)
    return options


def tool_versions() -> dict[str, str]:
    """The versions of what had a hand in the result."""
    return {
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "tritonclient": importlib.metadata.version("tritonclient"),
        "perf_analyzer": program_version("perf_analyzer"),
    }


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_common_arguments(parser)
    parser.add_argument(
        "--golden", required=True, type=s3_url, help="where the requests come from, s3://BUCKET/….npz"
    )
    return checked(parser, parser.parse_args(argv))


def chosen_subjects(options: argparse.Namespace) -> list[Subject]:
    """The candidate, and the baseline where one is named."""
    subjects = [Subject("candidate", options.candidate, options.candidate_version)]
    if options.baseline:
        subjects.append(Subject("baseline", options.baseline, options.baseline_version))
    return subjects


def describe(measured: Mapping[str, Any], rounds: int) -> str:
    """One line about a measurement, for the log."""
    return (
        f"round {measured['round']} of {rounds}, {measured['role']}: {measured['requests']} requests, "
        f"{measured['throughput_rps']:.1f}/s, "
        f"p50 {measured['p50_ms']:.2f} ms, p99 {measured['p99_ms']:.2f} ms"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def unexpected(error: BaseException) -> PodError:
    """The error for what this program did not foresee; the log holds the traceback."""
    return PodError(
        "SlipwayError",
        "The benchmark failed in a way it does not know",
        found=f"{type(error).__name__}: {first_line(error)}",
        remedy="read the pod's log for the traceback, and report it",
    )


def stop(number: int, _: object) -> None:
    """Ends by way of every `finally`, so that the load generator goes too."""
    raise SystemExit(128 + number)


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
        execute(store, options, payload)
    except PodError as error:
        failure = error
    except Exception as error:  # whatever it is, the result must tell
        traceback.print_exc()
        failure = unexpected(error)
    code = EXIT_CODES[failure.kind] if failure else 0
    result = {
        "outcome": "refused" if code == 4 else "error" if failure else "pass",
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
        say("done", f"{result['seconds']} s")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
