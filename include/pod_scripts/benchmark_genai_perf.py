#!/usr/bin/env python3
"""Measures a model that generates text on a Triton with genai-perf, and another one beside it in the run.

The prompts are the golden set's column `text_input` where there is one, else synthetic. Each round measures
the candidate and the baseline with a fixed number of requests, in turns, so that what slows the machine meets
both; a few requests go to each before the first. Writes `raw/ROLE-ROUND.json` and, last, `result.json` under
the destination.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the candidate fails requests; 75 try again later (S3
or Triton does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import math
import os
import platform
import queue
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
PROMPTS = "text_input"
MAX_PROMPTS = 256
SYNTHETIC_PROMPT = "Once upon a time"
MAX_TOKENIZER_FILES = 100
IMAGE_TOKENIZER = "/opt/slipway/tokenizer"
READY_TIMEOUT_S = 30.0
QUANTILES = ("avg", "p50", "p90", "p95", "p99")
# How perf_analyzer, which genai-perf drives, says that the server answered a request with an error. It then
# often hangs or crashes instead of ending.
REFUSED_REQUEST = re.compile(
    r"thread \[\d+\] had error|failed to retrieve results from inference", re.IGNORECASE
)
HANG_GRACE_S = 5.0
# What genai-perf sends besides the text, in the manner of each backend; the model must declare it.
BACKEND_INPUTS = {
    "vllm": ("stream", "exclude_input_in_output", "sampling_parameters"),
    "tensorrtllm": ("stream", "exclude_input_in_output", "max_tokens"),
}


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

    def download_folder(self, url: str, target: Path, limit: int) -> None:
        """Downloads all objects below a prefix, `limit` at most. Raises PodError (InputMissingError)."""
        bucket, prefix = split_url(url)
        prefix = prefix.rstrip("/") + "/"
        answer: dict[str, Any] = {}
        self._call(
            url,
            lambda: answer.update(
                self._client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=limit + 1)
            ),
        )
        keys = [entry["Key"] for entry in answer.get("Contents", []) if not entry["Key"].endswith("/")]
        if not 0 < len(keys) <= limit:
            raise PodError(
                "InputMissingError",
                f"{url} does not hold what it should",
                expected=f"1 to {limit} files",
                found="none" if not keys else f"more than {limit}",
                remedy="correct the address in the release file",
            )
        for key in keys:
            path = (target / key.removeprefix(prefix)).resolve()
            # A key may hold "..": nothing is written outside the folder.
            if path.is_relative_to(target.resolve()):
                path.parent.mkdir(parents=True, exist_ok=True)
                self.download(f"s3://{bucket}/{key}", path)

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

    def generate(
        self, subject: Subject, metadata: Mapping[str, Any], values: Mapping[str, Any], deadline: Deadline
    ) -> str | None:
        """Has the model answer once, to the end; returns the error it answered with, if any."""
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        inputs = [
            as_input(item, values[item["name"]]) for item in metadata["inputs"] if item["name"] in values
        ]
        self._client.start_stream(callback=lambda result, error: answers.put((result, error)))
        try:
            self._client.async_stream_infer(
                subject.model, inputs, model_version=subject.version, enable_empty_final_response=True
            )
            while True:
                result, error = answers.get(timeout=max(0.001, deadline.remaining_s()))
                if error is not None:
                    return first_line(error)
                if result.get_response().parameters["triton_final_response"].bool_param:
                    return None
        except queue.Empty:
            raise out_of_time(deadline) from None
        finally:
            self._client.stop_stream(cancel_requests=True)

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


def as_input(item: Mapping[str, Any], value: Any) -> Any:
    """One value as an input of the model; every open dimension is 1."""
    import numpy as np
    from tritonclient.grpc import InferInput
    from tritonclient.utils import triton_to_np_dtype

    shape = [max(1, int(size)) for size in item["shape"]]
    tensor = InferInput(item["name"], shape, item["datatype"])
    data = value.encode() if isinstance(value, str) else value
    tensor.set_data_from_numpy(np.full(shape, data, dtype=triton_to_np_dtype(item["datatype"])))
    return tensor


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


# ---------------------------------------------------------------- what the requests are made of


def read_prompts(golden: Path, name: str) -> list[str]:
    """The golden set's prompts, at least one. Raises PodError (GoldenSetError)."""
    import numpy as np

    try:
        with np.load(golden, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise PodError(
            "GoldenSetError",
            f"{name} cannot be read",
            expected="a NumPy .npz archive without pickled objects",
            found=f"{golden.stat().st_size} bytes, {first_line(error)}",
            remedy=f"write it with numpy.savez(path, {PROMPTS}=…) from an array of strings",
        ) from error
    column = arrays.get(PROMPTS)
    if column is None or column.dtype.kind not in "US" or not column.size:
        found = (
            f"{column.dtype.name}, {column.size} values" if column is not None else ", ".join(sorted(arrays))
        )
        raise PodError(
            "GoldenSetError",
            f"{name} holds no prompts",
            expected=f"a column {PROMPTS!r} of strings",
            found=found or "no array",
            remedy="add the column, or leave --golden out for synthetic prompts",
        )
    return [str(text) for text in column.astype(str).reshape(-1)[:MAX_PROMPTS]]


def bring_tokenizer(store: Store, place: str | None, target: Path) -> Path:
    """The tokenizer's folder on this machine: as named, from S3, or the image's own. Raises PodError."""
    if place and place.startswith("s3://"):
        store.download_folder(place, target, MAX_TOKENIZER_FILES)
        folder = target
    else:
        folder = Path(place or IMAGE_TOKENIZER)
    if not (folder / "tokenizer.json").is_file() and not (folder / "tokenizer_config.json").is_file():
        raise PodError(
            "InputMissingError",
            f"There is no tokenizer in {place or IMAGE_TOKENIZER}",
            expected="a folder with tokenizer.json or tokenizer_config.json",
            found="neither",
            remedy="name its folder or s3:// prefix in benchmark.genai.tokenizer of the release file",
        )
    return folder


def require_text_model(subject: Subject, metadata: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Raises PodError (UserError) unless the model declares every input that genai-perf is going to send."""
    declared = [item["name"] for item in metadata["inputs"]]
    extra = BACKEND_INPUTS[options.backend] if options.endpoint_type == "kserve" else ()
    needed = [PROMPTS, *(name for name in extra if name != "stream" or options.streaming)]
    missing = [name for name in needed if name not in declared]
    if not missing:
        return
    raise PodError(
        "UserError",
        f"The {subject} does not take what genai-perf sends",
        expected=f"the inputs {', '.join(needed)}",
        found=f"{', '.join(declared) or 'none'}; missing: {', '.join(missing)}",
        remedy="correct benchmark.genai.backend in the release file, or declare the inputs in config.pbtxt "
        "as optional; a model of tensors is measured with benchmark.generator: perf_analyzer",
    )


def warm_up(
    server: Server, subject: Subject, metadata: Mapping[str, Any], prompts: Sequence[str], deadline: Deadline,
    options: argparse.Namespace,
) -> None:  # fmt: skip
    """Sends a few prompts one by one, reads the answers to their ends. Raises PodError when one fails."""
    values = {
        "stream": options.streaming,
        "exclude_input_in_output": True,
        "max_tokens": options.output_tokens_mean,
        "sampling_parameters": json.dumps({"max_tokens": str(options.output_tokens_mean)}),
    }
    for number in range(options.warmup_requests):
        prompt = prompts[number % len(prompts)]
        error = server.generate(subject, metadata, {**values, PROMPTS: prompt}, deadline)
        if error is not None:
            server.require_serving(subject)
            raise refused(subject, f"prompt {prompt[:60]!r} was answered with: {error[:300]}")


# ---------------------------------------------------------------- the measurement


def command_line(
    subject: Subject,
    number: int,
    tokenizer: Path,
    prompts: Path | None,
    artifacts: Path,
    options: argparse.Namespace,
) -> list[str]:
    """The call of genai-perf for one round. Both models of a round get the same seed, so the same prompts.

    No warm-up of its own: perf_analyzer hangs for good when a streamed warm-up request is answered with an
    error.
    """
    generate = options.endpoint_type == "generate"
    way = "generate_stream" if options.streaming else "generate"
    path = f"v2/models/{subject.model}/versions/{subject.version}/{way}"
    endpoint = ["--endpoint", path] if generate else ["--backend", options.backend]
    source = (
        ["--input-file", str(prompts)]
        if prompts
        else [
            "--synthetic-input-tokens-mean",
            str(options.input_tokens_mean),
            "--synthetic-input-tokens-stddev",
            "0",
        ]
    )
    return [
        find_program("genai-perf"), "profile", "-m", subject.model,
        "--endpoint-type", options.endpoint_type, *endpoint,
        "-u", options.http_server if generate else options.server,
        *(["--streaming"] if options.streaming else []),
        "--concurrency", str(options.concurrency),
        "--request-count", str(options.requests),
        "--tokenizer", str(tokenizer), *source, "--random-seed", str(number),
        "--output-tokens-mean", str(options.output_tokens_mean), "--output-tokens-stddev", "0",
        "--artifact-dir", str(artifacts),
        *([] if generate else ["--", "-x", subject.version]),
    ]  # fmt: skip


def measure(
    server: Server, subject: Subject, number: int, tokenizer: Path, prompts: Path | None, workdir: Path,
    deadline: Deadline, options: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    """One round of one model: returns a measurement, leaves `ROLE-ROUND.json` in the work folder."""
    name = f"{subject.role}-{number}"
    artifacts, log = workdir / name, workdir / f"{name}.log"
    command = command_line(subject, number, tokenizer, prompts, artifacts, options)
    # The tokenizer is a folder: nothing is to be asked of a model hub.
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HOME": str(workdir / "hub")}
    code = run_program(command, log, deadline, {**offline, "COLUMNS": "200"})
    reports = sorted(artifacts.rglob("profile_export_genai_perf.json"))
    if code != 0 or len(reports) != 1:
        raise ended_badly(server, subject, "genai-perf", code, log)
    report = json.loads(reports[0].read_text())
    spans = read_spans(reports[0].with_name("profile_export.json"))
    shutil.rmtree(artifacts)
    raw = {"role": subject.role, "model": subject.model, "version": subject.version, "round": number}
    metrics = {key: value for key, value in report.items() if isinstance(value, dict) and "unit" in value}
    (workdir / f"{name}.json").write_text(json.dumps({**raw, "requests_ns": spans, "genai_perf": metrics}))
    return {
        "role": subject.role,
        "round": number,
        "concurrency": options.concurrency,
        **figures(report, options),
    }


def read_spans(export: Path) -> list[tuple[int, list[int]]]:
    """Start, and each answer's arrival, of every request in ns, from perf_analyzer's profile export."""
    requests = [item for run in json.loads(export.read_text())["experiments"] for item in run["requests"]]
    return [(item["timestamp"], item["response_timestamps"]) for item in requests]


def figures(report: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """genai-perf's figures in our words; a request that was answered without any text counts as an error."""
    answered = round(report.get("request_count", {}).get("avg", 0))
    latency = quantiles(report.get("request_latency"))
    if not answered or latency is None:
        latency = dict.fromkeys((f"{name}_ms" for name in QUANTILES), 0.0)
    return {
        "requests": max(options.requests, answered),
        "errors": max(0, options.requests - answered),
        "throughput_rps": number_of(report, "request_throughput"),
        **latency,
        "output_tokens_per_s": number_of(report, "output_token_throughput"),
        "ttft_ms": quantiles(report.get("time_to_first_token")) if options.streaming else None,
        "itl_ms": quantiles(report.get("inter_token_latency")) if options.streaming else None,
    }


def quantiles(metric: Mapping[str, Any] | None) -> dict[str, float] | None:
    """`avg_ms`, `p50_ms`, … of one of genai-perf's metrics, which are in ms; None when it is not there."""
    if not metric or any(not math.isfinite(metric.get(name, math.nan)) for name in QUANTILES):
        return None
    return {f"{name}_ms": round(float(metric[name]), 4) for name in QUANTILES}


def number_of(report: Mapping[str, Any], metric: str) -> float:
    """The single value of one of genai-perf's metrics, 0 when it is not there."""
    return round(float(report.get(metric, {}).get("avg", 0.0)), 3)


# ---------------------------------------------------------------- the run


def execute(store: Store, options: argparse.Namespace, payload: dict[str, Any]) -> None:
    """Measures all rounds; fills `payload` as it goes, so that a failure still tells what was measured."""
    # A result of an earlier attempt must never be taken for this one's.
    store.delete(f"{options.destination}/result.json")
    subjects = chosen_subjects(options)
    measurements: list[dict[str, Any]] = payload.setdefault("measurements", [])
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        workdir = Path(folder)
        tokenizer = bring_tokenizer(store, options.tokenizer, workdir / "tokenizer")
        prompts, texts = None, [SYNTHETIC_PROMPT]
        if options.golden:
            store.download(options.golden, workdir / "golden.npz")
            prompts, texts = workdir / "prompts.jsonl", read_prompts(workdir / "golden.npz", options.golden)
            prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            say("prepare", f"{len(texts)} prompts")
        deadline = Deadline(options.timeout_s)
        server = Server(options.server, min(READY_TIMEOUT_S, options.timeout_s))
        for subject in subjects:
            metadata, _ = server.describe(subject)
            require_text_model(subject, metadata, options)
            warm_up(server, subject, metadata, texts, deadline, options)
            say("warm up", f"{subject}, {options.warmup_requests} requests")
        for number in range(1, options.rounds + 1):
            # Who goes first changes from round to round: neither always finds the warmer machine.
            for subject in subjects if number % 2 else subjects[::-1]:
                measured = measure(server, subject, number, tokenizer, prompts, workdir, deadline, options)
                measurements.append(measured)
                say("measure", describe(measured, options.rounds))
                name = f"{subject.role}-{number}.json"
                store.upload(workdir / name, f"{options.destination}/raw/{name}")


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
    packages = ("genai-perf", "tokenizers", "transformers", "tritonclient")
    return {
        "python": platform.python_version(),
        "perf_analyzer": program_version("perf_analyzer"),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_common_arguments(parser)
    parser.add_argument(
        "--golden", type=s3_url, help=f"where the prompts come from (column {PROMPTS}), s3://BUCKET/….npz"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="DIR|S3URL",
        help=f"the tokenizer's folder or s3:// prefix (default: {IMAGE_TOKENIZER})",
    )
    parser.add_argument(
        "--endpoint-type", choices=["kserve", "generate"], default="kserve", help="gRPC, or /generate"
    )
    parser.add_argument("--http-server", metavar="HOST:HTTP_PORT", help="for --endpoint-type generate")
    parser.add_argument(
        "--backend", choices=["vllm", "tensorrtllm"], default="vllm", help="whose inputs the model takes"
    )
    parser.add_argument(
        "--streaming", action=argparse.BooleanOptionalAction, default=False, help="token by token"
    )
    parser.add_argument(
        "--input-tokens-mean", type=count, default=64, metavar="N", help="length of synthetic prompts"
    )
    parser.add_argument("--output-tokens-mean", type=count, default=16, metavar="N", help="tokens asked for")
    options = checked(parser, parser.parse_args(argv))
    if options.endpoint_type == "generate" and not options.http_server:
        parser.error("--endpoint-type generate needs --http-server HOST:HTTP_PORT")
    return options


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
