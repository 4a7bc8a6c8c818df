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
import json
import queue
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.benchmark.figures import Load
from slipway_pod.benchmark.genai_perf_files import EXPORT, REPORT, figures_of_report, read_arrivals
from slipway_pod.benchmark.hanging_rounds import run_round
from slipway_pod.benchmark.load import (
    BenchmarkRun,
    Round,
    Subject,
    checked,
    ended_badly,
    load_parser,
    measure_in_turns,
    refused,
    run_benchmark,
)
from slipway_pod.errors import PodError, first_line
from slipway_pod.models.golden import read_arrays
from slipway_pod.program.arguments import s3_url, whole
from slipway_pod.program.progress import say
from slipway_pod.storage.s3 import Store

PACKAGES = ("genai-perf", "tokenizers", "transformers", "tritonclient")
PROMPTS = "text_input"
MAX_PROMPTS = 256
SYNTHETIC_PROMPT = "Once upon a time"
MAX_TOKENIZER_FILES = 100
IMAGE_TOKENIZER = "/opt/slipway/tokenizer"
# genai-perf imports transformers and prepares its prompts before it starts perf_analyzer.
STARTS_IN_S = 40.0
# What genai-perf sends besides the text, in the manner of each backend; the model must declare it.
BACKEND_INPUTS = {
    "vllm": ("stream", "exclude_input_in_output", "sampling_parameters"),
    "tensorrtllm": ("stream", "exclude_input_in_output", "max_tokens"),
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = load_parser(__doc__)
    add = parser.add_argument
    add("--golden", type=s3_url, help=f"where the prompts come from (column {PROMPTS}), s3://BUCKET/….npz")
    text = f"the tokenizer's folder or s3:// prefix (default: {IMAGE_TOKENIZER})"
    add("--tokenizer", metavar="DIR|S3URL", help=text)
    add("--endpoint-type", choices=["kserve", "generate"], default="kserve", help="gRPC, or /generate")
    add("--http-server", metavar="HOST:HTTP_PORT", help="for --endpoint-type generate")
    add("--backend", choices=[*BACKEND_INPUTS], default="vllm", help="whose inputs the model takes")
    add("--streaming", action=argparse.BooleanOptionalAction, default=False, help="token by token")
    add("--input-tokens-mean", type=whole, default=64, metavar="N", help="length of synthetic prompts")
    add("--input-tokens-stddev", type=int, default=0, metavar="N", help="by how much that differs")
    add("--output-tokens-mean", type=whole, default=16, metavar="N", help="tokens asked for")
    add("--output-tokens-stddev", type=int, default=0, metavar="N", help="by how much that differs")
    options = checked(parser, parser.parse_args(argv))
    if options.endpoint_type == "generate" and not options.http_server:
        parser.error("--endpoint-type generate needs --http-server HOST:HTTP_PORT")
    return options


@dataclass(frozen=True)
class Text:
    """What the requests are made of: the prompts, the file that genai-perf reads them from, and the tokenizer.

    Without a file genai-perf makes up its own.
    """

    prompts: Sequence[str]
    file: Path | None
    tokenizer: Path


def work(options: argparse.Namespace, store: Store, folder: Path, result: dict[str, Any]) -> None:
    """Measure all rounds; fill in `result` as it goes, so that a failure still tells what was measured."""
    text = bring_text(store, options, folder)
    run = BenchmarkRun.open(options, store, folder)
    for subject in run.subjects:
        metadata, _ = run.server.describe(subject)
        require_text_model(subject, metadata, options)
        warm_up(run, subject, metadata, text.prompts)
        say("warm up", f"{subject}, {options.warmup_requests} requests")
    measure_in_turns(run, partial(measure, run, text), result)


# ---------------------------------------------------------------- what the requests are made of


def bring_text(store: Store, options: argparse.Namespace, folder: Path) -> Text:
    """Fetch the tokenizer, and the prompts where a golden set holds them."""
    tokenizer = bring_tokenizer(store, options.tokenizer, folder / "tokenizer")
    if not options.golden:
        return Text([SYNTHETIC_PROMPT], None, tokenizer)
    store.download(options.golden, folder / "golden.npz")
    prompts, file = read_prompts(folder / "golden.npz", options.golden), folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in prompts))
    say("prepare", f"{len(prompts)} prompts")
    return Text(prompts, file, tokenizer)


def read_prompts(golden: Path, name: str) -> list[str]:
    """Return the golden set's prompts, at least one.

    :raises PodError: of kind GoldenSetError.
    """
    arrays = read_arrays(golden, name)
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
    """Return the tokenizer's folder on this machine: as named, from S3, or the image's own."""
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
    """Raise PodError (UserError) unless the model declares every input that genai-perf is going to send."""
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


# ---------------------------------------------------------------- the warm-up


def warm_up(run: BenchmarkRun, subject: Subject, metadata: Mapping[str, Any], prompts: Sequence[str]) -> None:
    """Send a few prompts one by one, read the answers to their ends; the shortest tells how long a request takes.

    :raises PodError: one fails.
    """
    options = run.options
    values = {
        "stream": options.streaming,
        "exclude_input_in_output": True,
        "max_tokens": options.output_tokens_mean,
        "sampling_parameters": json.dumps({"max_tokens": str(options.output_tokens_mean)}),
    }
    for number in range(options.warmup_requests):
        prompt = prompts[number % len(prompts)]
        sent = {**values, PROMPTS: prompt}
        inputs = [as_input(item, sent[item["name"]]) for item in metadata["inputs"] if item["name"] in sent]
        began = time.monotonic()
        error = answer_once(run, subject, inputs)
        if error is not None:
            run.server.require_serving(subject)
            raise refused(subject, f"prompt {prompt[:60]!r} was answered with: {error[:300]}")
        took_s = time.monotonic() - began
        run.request_s[subject.role] = min(took_s, run.request_s.get(subject.role, took_s))


def answer_once(run: BenchmarkRun, subject: Subject, inputs: Sequence[Any]) -> str | None:
    """Send one request and read its answers to the end; return the error it answered with, if any."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client = run.server.client
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    try:
        client.async_stream_infer(
            subject.model, inputs, model_version=subject.version, enable_empty_final_response=True
        )
        while True:
            result, error = answers.get(timeout=max(0.001, run.deadline.remaining_s()))
            if error is not None:
                return first_line(error)
            if result.get_response().parameters["triton_final_response"].bool_param:
                return None
    except queue.Empty:
        raise run.deadline.passed() from None
    finally:
        client.stop_stream(cancel_requests=True)


def as_input(item: Mapping[str, Any], value: Any) -> Any:
    """Return one value as an input of the model; every open dimension is 1."""
    import numpy as np
    from tritonclient.grpc import InferInput
    from tritonclient.utils import triton_to_np_dtype

    shape = [max(1, int(size)) for size in item["shape"]]
    tensor = InferInput(item["name"], shape, item["datatype"])
    data = value.encode() if isinstance(value, str) else value
    tensor.set_data_from_numpy(np.full(shape, data, dtype=triton_to_np_dtype(item["datatype"])))
    return tensor


# ---------------------------------------------------------------- the measurement


def measure(run: BenchmarkRun, text: Text, subject: Subject, number: int, load: Load) -> Round:
    """Measure one round of one model."""
    artifacts = run.folder / f"{subject.role}-{number}"
    command = genai_perf_command(run.options, subject, number, load, text, artifacts)
    # The tokenizer is a folder: nothing is to be asked of a model hub.
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HOME": str(run.folder / "hub")}
    environment = {**offline, "COLUMNS": "200"}
    ended = run_round(run, subject, load, command, environment, starts_in_s=STARTS_IN_S)
    reports = sorted(artifacts.rglob(REPORT))
    if ended.code != 0 or len(reports) != 1:
        raise ended_badly(run.server, subject, command[0], ended)
    report = json.loads(reports[0].read_text())
    spans = read_arrivals(reports[0].with_name(EXPORT))
    shutil.rmtree(artifacts)
    metrics = {key: value for key, value in report.items() if isinstance(value, dict) and "unit" in value}
    figures = figures_of_report(report, load.requests(run.options.requests), streaming=run.options.streaming)
    return Round(figures, {"requests_ns": spans, "genai_perf": metrics})


def genai_perf_command(
    options: argparse.Namespace, subject: Subject, number: int, load: Load, text: Text, artifacts: Path
) -> list[str]:
    """Return the call of genai-perf for one round. Both models of a round get the same seed, so the same prompts.

    No warm-up of its own: perf_analyzer hangs for good when a streamed warm-up request is answered with an
    error.
    """
    generate = options.endpoint_type == "generate"
    way = "generate_stream" if options.streaming else "generate"
    path = f"v2/models/{subject.model}/versions/{subject.version}/{way}"
    endpoint = ["--endpoint", path] if generate else ["--backend", options.backend]
    made_up = [
        "--synthetic-input-tokens-mean",
        str(options.input_tokens_mean),
        "--synthetic-input-tokens-stddev",
        str(options.input_tokens_stddev),
    ]
    if load.request_rate_rps is not None:
        level = ["--request-rate", f"{load.request_rate_rps:g}"]
    else:
        level = ["--concurrency", str(load.concurrency)]
    return [
        "genai-perf", "profile", "-m", subject.model,
        "--endpoint-type", options.endpoint_type, *endpoint,
        "-u", options.http_server if generate else options.server,
        *(["--streaming"] if options.streaming else []),
        *level,
        "--request-count", str(load.requests(options.requests)),
        "--tokenizer", str(text.tokenizer),
        *(["--input-file", str(text.file)] if text.file else made_up), "--random-seed", str(number),
        "--output-tokens-mean", str(options.output_tokens_mean),
        "--output-tokens-stddev", str(options.output_tokens_stddev),
        "--artifact-dir", str(artifacts),
        *([] if generate else ["--", "-x", subject.version]),
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return run_benchmark(arguments(argv), work, PACKAGES, "genai_perf")


if __name__ == "__main__":
    raise SystemExit(main())
