#!/usr/bin/env python3
"""Builds TensorRT-LLM engines from a Hugging Face checkpoint, and the Triton repository around them.

Fetches the checkpoint (a folder in S3, or a model of the Hugging Face hub at a fixed revision), runs
convert_checkpoint.py and trtllm-build, and fills in the inflight-batcher repository: an ensemble of preprocessing,
tensorrt_llm and postprocessing. The configurations are parsed, filled in and written with Triton's own protobuf
message: a template's placeholder that nobody has a value for is an error here and not when the server loads it.

Writes the files under DESTINATION/repository/ as they will lie in the published repository, and, last,
DESTINATION/result.json, which is written whatever happened, as long as S3 answers. There is no parity here: the
release's validation compares what the models answer.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 75 try again later (S3 or the hub does not answer, time is up);
1 an error in this program.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import math
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("protobuf", "tensorrt", "tensorrt_llm", "tritonclient")
EXIT_CODES = {
    "UserError": 3,
    "InputMissingError": 3,
    "ModelInvalidError": 3,
    "StoreUnavailableError": 75,
    "TimedOutError": 75,
    "SlipwayError": 1,
}
# Where the image has NVIDIA's scripts and templates, at the tag of its TensorRT-LLM.
HOME = Path("/opt/tensorrt-llm")
TEMPLATES = HOME / "triton_backend/all_models/inflight_batcher_llm"
SCRIPT = "examples/models/core/{family}/convert_checkpoint.py"
MEMBERS = ("preprocessing", "tensorrt_llm", "postprocessing")
TOKENIZER = "tokenizer"
# What a tokenizer is made of; weights stay out.
TOKENIZER_FILES = ("*.json", "*.model", "*.txt", "*.jinja", "*.py", "*.tiktoken")
NOT_TOKENIZER = ("*.safetensors.index.json", "pytorch_model.bin.index.json")
WEIGHT_ONLY = {"int8": "int8", "int4": "int4"}
DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|bad allocation|failed to allocate|can(no|')t allocate memory|out of memory", re.IGNORECASE
)
PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
SCHEDULERS = ("guaranteed_no_evict", "max_utilization")
LAST_LINES = 40


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--source", type=s3_url, help="the checkpoint's folder, s3://BUCKET/PREFIX")
    add(
        "--hub-model",
        metavar="ORG/NAME",
        help="instead of --source: a model of the Hugging Face hub (HF_TOKEN)",
    )
    add(
        "--hub-revision",
        metavar="COMMIT",
        help="its commit: 40 hexadecimal digits, so that a build can be repeated",
    )
    add("--golden", type=s3_url, help="taken as other converters do, and not used")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add(
        "--model",
        required=True,
        help="what the ensemble is called; members are called MODEL_preprocessing, …",
    )
    add("--version", required=True, type=whole, help="the version's number")
    add("--serving-root", default="/mnt/models", help="where the server has the repository (%(default)s)")
    add("--family", default="llama", help="the folder of convert_checkpoint.py in the examples (%(default)s)")
    add(
        "--precision",
        choices=[*DTYPES, *WEIGHT_ONLY],
        default="bf16",
        help="int8 and int4: weights (%(default)s)",
    )
    add(
        "--dtype",
        choices=["auto", "float16", "bfloat16"],
        default="auto",
        help="beside int8 and int4 (%(default)s)",
    )
    add("--tp-size", type=whole, default=1, help="tensor parallelism (%(default)s)")
    add("--pp-size", type=whole, default=1, help="pipeline parallelism (%(default)s)")
    add("--max-batch-size", type=whole, default=256, help="requests at the same time (%(default)s)")
    add(
        "--max-num-tokens",
        type=whole,
        default=8192,
        help="tokens of a step, all requests together (%(default)s)",
    )
    add("--max-input-len", type=whole, default=1024, help="tokens of a prompt (%(default)s)")
    add("--max-seq-len", type=whole, help="tokens of prompt and answer; left out: the model's own limit")
    add("--max-beam-width", type=whole, default=1, help="(%(default)s)")
    add(
        "--multiple-profiles",
        action="store_true",
        help="several optimisation profiles: slower to build, faster",
    )
    add(
        "--reduce-fusion",
        action="store_true",
        help="fuse the reduction after a layer; with tensor parallelism",
    )
    add(
        "--no-paged-kv-cache",
        action="store_true",
        help="a contiguous cache; requests are then not batched in flight",
    )
    add("--no-paged-context-fmha", action="store_true", help="then neither cache reuse nor chunked prompts")
    add(
        "--gemm-plugin",
        choices=["auto", "float16", "bfloat16", "disable"],
        default="auto",
        help="(%(default)s)",
    )
    add(
        "--kv-cache-fraction",
        type=share,
        default=0.9,
        help="of the free GPU memory, for the cache (%(default)s)",
    )
    add("--kv-cache-reuse", action="store_true", help="keep the cache of prompts that begin alike")
    add("--chunked-context", action="store_true", help="split long prompts among steps")
    add(
        "--scheduler",
        choices=SCHEDULERS,
        default=SCHEDULERS[0],
        help="who waits when memory is short (%(default)s)",
    )
    add("--streaming", action="store_true", help="tokens as they come: the model is decoupled")
    add("--max-queue-delay-us", type=int, default=0, help="(%(default)s)")
    add(
        "--tokenizer-instances",
        type=whole,
        default=1,
        help="of preprocessing and of postprocessing (%(default)s)",
    )
    add("--timing-cache", type=s3_url, help="read before and written after the build, s3://BUCKET/PREFIX")
    add("--templates", type=Path, default=TEMPLATES, help="the inflight-batcher templates (%(default)s)")
    add("--examples", type=Path, default=HOME, help="where the folder `examples` lies (%(default)s)")
    add("--tool-python", default="/usr/bin/python3", help="the Python that has TensorRT-LLM (%(default)s)")
    add(
        "--timeout-s",
        type=positive,
        default=7200.0,
        help="limit for all tools together, in seconds (%(default)s)",
    )
    add(
        "--memory-mib",
        type=whole,
        default=65536,
        help="limit for each tool's own memory, in MiB (%(default)s)",
    )
    options = parser.parse_args(argv)
    check_arguments(parser, options)
    return options


def check_arguments(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the program with exit code 2 when arguments contradict each other."""
    if bool(options.source) == bool(options.hub_model):
        parser.error("give either --source or --hub-model")
    if options.hub_model and not re.fullmatch(r"[0-9a-f]{40}", options.hub_revision or ""):
        parser.error(
            "--hub-model needs --hub-revision, a commit of 40 hexadecimal digits: a branch would move"
        )
    if options.reduce_fusion and options.tp_size == 1:
        parser.error("--reduce-fusion is for --tp-size above 1: there is nothing to reduce on one GPU")
    paged_context = not (options.no_paged_context_fmha or options.no_paged_kv_cache)
    if (options.kv_cache_reuse or options.chunked_context) and not paged_context:
        parser.error(
            "--kv-cache-reuse and --chunked-context need the paged cache and paged context attention"
        )
    if options.max_seq_len and options.max_seq_len < options.max_input_len:
        parser.error("--max-seq-len is below --max-input-len, and counts the answer too")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", options.model):
        parser.error(f"--model must be lower-case letters, digits and hyphens, found {options.model!r}")


# ---------------------------------------------------------------- the commands


def convert_command(options: argparse.Namespace, folder: Path) -> list[str]:
    """The command line of convert_checkpoint.py (TensorRT-LLM 0.21)."""
    command = [options.tool_python, str(options.examples / SCRIPT.format(family=options.family))]
    command += ["--model_dir", str(folder / "source"), "--output_dir", str(folder / "checkpoint")]
    command += ["--dtype", DTYPES.get(options.precision, options.dtype)]
    command += ["--tp_size", str(options.tp_size), "--pp_size", str(options.pp_size)]
    command += ["--workers", str(options.tp_size * options.pp_size)]
    if options.precision in WEIGHT_ONLY:
        command += ["--use_weight_only", "--weight_only_precision", WEIGHT_ONLY[options.precision]]
    return command


def build_command(options: argparse.Namespace, folder: Path, *, has_timings: bool) -> list[str]:
    """The command line of trtllm-build (TensorRT-LLM 0.21)."""
    command = [
        "trtllm-build",
        "--checkpoint_dir",
        str(folder / "checkpoint"),
        "--output_dir",
        str(folder / "engine"),
    ]
    for name in ("max_batch_size", "max_num_tokens", "max_input_len", "max_seq_len", "max_beam_width"):
        value = getattr(options, name)
        command += [f"--{name}", str(value)] if value else []
    command += ["--kv_cache_type", "continuous" if options.no_paged_kv_cache else "paged"]
    # What batching in flight wants, besides the paged cache.
    command += ["--remove_input_padding", "enable", "--gpt_attention_plugin", "auto"]
    command += ["--gemm_plugin", options.gemm_plugin]
    switches = {
        "use_paged_context_fmha": not (options.no_paged_context_fmha or options.no_paged_kv_cache),
        "multiple_profiles": options.multiple_profiles,
        "reduce_fusion": options.reduce_fusion,
    }
    for name, on in switches.items():
        command += [f"--{name}", "enable" if on else "disable"]
    command += ["--workers", str(options.tp_size * options.pp_size)]
    command += ["--input_timing_cache", str(folder / "timing.cache")] if has_timings else []
    return [*command, "--output_timing_cache", str(folder / "timing.cache")]


# ---------------------------------------------------------------- the repository


def member_names(model: str) -> dict[str, str]:
    """What each template's model is called in this repository; the ensemble has the released model's name."""
    return {"ensemble": model, **{member: f"{model}_{member}" for member in MEMBERS}}


def template_values(options: argparse.Namespace) -> dict[str, Any]:
    """A value for each placeholder that has one; a parameter without one is left out of the configuration."""
    names, version = member_names(options.model), options.version
    root = options.serving_root.rstrip("/")
    return {
        "triton_backend": "tensorrtllm",
        "triton_max_batch_size": options.max_batch_size,
        "decoupled_mode": options.streaming,
        "max_queue_delay_microseconds": options.max_queue_delay_us,
        "max_queue_size": 0,
        "max_beam_width": options.max_beam_width,
        "batching_strategy": "V1" if options.no_paged_kv_cache else "inflight_fused_batching",
        "batch_scheduler_policy": options.scheduler,
        "engine_dir": f"{root}/{names['tensorrt_llm']}/{version}",
        "tokenizer_dir": f"{root}/{names['preprocessing']}/{version}/{TOKENIZER}",
        "kv_cache_free_gpu_mem_fraction": options.kv_cache_fraction,
        "enable_kv_cache_reuse": options.kv_cache_reuse,
        "enable_chunked_context": options.chunked_context,
        "exclude_input_in_output": True,
        "add_special_tokens": True,
        "skip_special_tokens": True,
        "multimodal_model_path": "",
        "preprocessing_instance_count": options.tokenizer_instances,
        "postprocessing_instance_count": options.tokenizer_instances,
        "logits_datatype": "TYPE_FP32",
        "encoder_input_features_data_type": "TYPE_FP16",
        "prompt_embedding_table_data_type": "TYPE_FP16",
    }


def filled(text: str, name: str, values: Mapping[str, Any]) -> Any:
    """A template as a ModelConfig message: typed values where it wants them, text inside quotes. Raises PodError."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    missing: list[str] = []

    def literal(match: re.Match[str]) -> str:
        # Inside quotes the placeholder is valid text, and is filled in the message.
        if match.string[: match.start()].split("\n")[-1].count('"') % 2:
            return match.group(0)
        if match.group(1) not in values:
            missing.append(match.group(1))
            return "0"
        value = values[match.group(1)]
        return str(value).lower() if isinstance(value, bool) else str(value)

    without_remarks = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    typed = PLACEHOLDER.sub(literal, without_remarks)
    if missing:
        raise template_error(name, f"${{{missing[0]}}}, for which there is no value")
    try:
        message = text_format.Parse(typed, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise template_error(name, first_line(error)) from error
    for key in list(message.parameters):
        said = message.parameters[key].string_value
        unknown = [found for found in PLACEHOLDER.findall(said) if found not in values]
        if unknown:
            del message.parameters[key]
        else:
            message.parameters[key].string_value = PLACEHOLDER.sub(
                lambda m: as_text(values[m.group(1)]), said
            )
    message.backend = PLACEHOLDER.sub(lambda m: as_text(values.get(m.group(1), m.group(0))), message.backend)
    left = PLACEHOLDER.search(text_format.MessageToString(message))
    if left:
        raise template_error(name, f"{left.group(0)}, for which there is no value")
    return message


def as_text(value: Any) -> str:
    """A value as a parameter holds it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def template_error(name: str, found: str) -> PodError:
    """The error for a template that this program cannot fill in."""
    return PodError(
        "ModelInvalidError",
        f"The template of {name} cannot be filled in",
        expected="placeholders that this program knows, and Triton's ModelConfig",
        found=found,
        remedy="use the templates of TensorRT-LLM 0.21, which the image holds",
    )


def make_configs(options: argparse.Namespace) -> dict[str, Any]:
    """The ModelConfig of each model, by its name in the repository. Raises PodError."""
    names, values = member_names(options.model), template_values(options)
    configs = {}
    for template, name in names.items():
        path = options.templates / template / "config.pbtxt"
        try:
            message = filled(path.read_text(), template, values)
        except OSError as error:
            raise template_error(template, first_line(error)) from error
        message.name = name
        for step in message.ensemble_scheduling.step:
            if step.model_name not in names:
                raise template_error(template, f"a step {step.model_name!r}")
            step.model_name = names[step.model_name]
        drop_repeated(message.input)
        drop_repeated(message.output)
        configs[name] = message
    return configs


def drop_repeated(tensors: Any) -> None:
    """A tensor that a template lists twice is listed once."""
    for index in reversed(range(len(tensors))):
        if any(other.name == tensors[index].name for other in list(tensors)[:index]):
            del tensors[index]


def signature_of(message: Any) -> dict[str, Any]:
    """The tensors of a model as clients see them, with the batch dimension."""
    from tritonclient.grpc import model_config_pb2

    def tensor(one: Any) -> dict[str, Any]:
        kind = model_config_pb2.DataType.Name(one.data_type).removeprefix("TYPE_").replace("STRING", "BYTES")
        batch = [-1] if message.max_batch_size else []
        return {"name": one.name, "datatype": kind, "shape": [*batch, *one.dims]}

    return {
        "inputs": [tensor(one) for one in message.input],
        "outputs": [tensor(one) for one in message.output],
    }


def lay_out(options: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Makes `repository/` of engine, tokenizer and templates; returns each config.pbtxt. Raises PodError."""
    from google.protobuf import text_format

    names, root = member_names(options.model), folder / "repository"
    configs = make_configs(options)
    for template in ("preprocessing", "postprocessing"):
        copy_tree(options.templates / template / "1", root / names[template] / str(options.version))
    copy_tree(folder / "engine", root / names["tensorrt_llm"] / str(options.version))
    tokenizer = root / names["preprocessing"] / str(options.version) / TOKENIZER
    tokenizer.mkdir(parents=True)
    skipped = {path for pattern in NOT_TOKENIZER for path in (folder / "source").glob(pattern)}
    taken = {path for pattern in TOKENIZER_FILES for path in (folder / "source").glob(pattern)} - skipped
    if not any(path.name.startswith("tokenizer") for path in taken):
        raise PodError(
            "InputMissingError",
            "The checkpoint has no tokenizer",
            expected="tokenizer.json or tokenizer.model, and tokenizer_config.json",
            found=", ".join(sorted(path.name for path in taken)) or "none of them",
            remedy="put the tokenizer's files beside the weights",
        )
    for path in sorted(taken):
        shutil.copyfile(path, tokenizer / path.name)
    return {
        name: text_format.MessageToString(message, use_short_repeated_primitives=True)
        for name, message in configs.items()
    }


def copy_tree(source: Path, target: Path) -> None:
    """Copies a folder's files, without what Python left there. Raises PodError when there is nothing."""
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    if not files:
        raise PodError(
            "ModelInvalidError",
            f"There is nothing in {source}",
            expected="the files of one version",
            found="no file",
            remedy="check the image, and the pod's log of the step that should have written it",
        )
    for path in files:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def require_engine(options: argparse.Namespace, folder: Path) -> None:
    """Raises PodError unless there is an engine for each rank, and the configuration that the server reads."""
    wanted = {"config.json", *(f"rank{rank}.engine" for rank in range(options.tp_size * options.pp_size))}
    found = {path.name for path in (folder / "engine").glob("*")}
    if not wanted <= found:
        raise PodError(
            "ModelInvalidError",
            "trtllm-build did not leave what it should",
            expected=", ".join(sorted(wanted)),
            found=", ".join(sorted(found)) or "nothing",
            remedy="read the pod's log",
        )


# ---------------------------------------------------------------- the machine


def describe_machine(options: argparse.Namespace) -> dict[str, Any]:
    """The GPUs and the versions of what builds. Raises PodError when there is no GPU, or there are several kinds."""
    command = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    remedy = (
        "ask for `conversion.resources.gpu`, and choose GPU nodes by conversion.node_selector and tolerations"
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        gpus = [
            tuple(part.strip() for part in line.split(","))
            for line in done.stdout.splitlines()
            if line.strip()
        ]
        name, capability, driver = gpus[0]
    except (OSError, subprocess.SubprocessError, IndexError, ValueError) as error:
        found = first_line(error)
        raise PodError(
            "UserError", "This pod has no GPU", expected="one", found=found, remedy=remedy
        ) from error
    if len(set(gpus)) > 1:
        kinds = ", ".join(sorted({gpu[0] for gpu in gpus}))
        raise PodError(
            "UserError", "The pod's GPUs are not alike", expected="one kind", found=kinds, remedy=remedy
        )
    versions = tool_versions()
    return {
        "gpu": name,
        "compute_capability": capability,
        "driver": driver,
        "tensorrt": versions.get("tensorrt", "unknown"),
        "tensorrt_llm": versions.get("tensorrt_llm", "unknown"),
        "cuda": os.environ.get("CUDA_VERSION"),
        "gpus": options.tp_size * options.pp_size,
    }


def tool_versions() -> dict[str, str]:
    """The versions of what had a hand in the result; a library that came without its metadata is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def timing_cache_url(options: argparse.Namespace, machine: Mapping[str, Any]) -> str | None:
    """Where the timings of this GPU and TensorRT lie: they say nothing of others."""
    if options.timing_cache is None:
        return None
    gpu = re.sub(r"[^a-z0-9]+", "-", machine["gpu"].lower()).strip("-")
    return f"{options.timing_cache}/{gpu}-sm{machine['compute_capability']}-trt{machine['tensorrt']}.cache"


# ---------------------------------------------------------------- the run


@dataclass(frozen=True)
class Run:
    """One run: what was asked, the folder it works in, and when its time is up (monotonic, in seconds)."""

    options: argparse.Namespace
    folder: Path
    ends_at: float


def execute(store: Store, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fetches, builds, lays out, uploads; returns the payload, or raises PodError."""
    # A result of an earlier attempt must never be taken for this one's.
    store.delete(f"{options.destination}/result.json")
    run = Run(options, folder, time.monotonic() + options.timeout_s)
    machine = describe_machine(options)
    say("machine", f"{machine['gpu']}, compute capability {machine['compute_capability']}")
    make_configs(options)  # a template that cannot be filled in shows before the hours of building
    fetch_checkpoint(store, options, folder / "source")
    timings = timing_cache_url(options, machine)
    has_timings = timings is not None and fetch_if_there(store, timings, folder / "timing.cache")
    commands = [convert_command(options, folder), build_command(options, folder, has_timings=has_timings)]
    for command in commands:
        run_program(run, command, {})
    require_engine(options, folder)
    if timings is not None and (folder / "timing.cache").exists():
        store.upload(folder / "timing.cache", timings)
    configs = lay_out(options, folder)
    files = upload_tree(store, folder / "repository", f"{options.destination}/repository")
    shown = [[part.replace(str(folder), ".") for part in command] for command in commands]
    return {
        "engine": machine,
        "build": {"commands": shown, "timing_cache": "used" if has_timings else "new"},
        "repository": {"files": files, "configs": configs},
        "signature": signature_of(make_configs(options)[options.model]),
        "parity": [],
    }


def fetch_checkpoint(store: Store, options: argparse.Namespace, target: Path) -> None:
    """Downloads the checkpoint from S3 or from the hub. Raises PodError."""
    target.mkdir()
    if options.source is not None:
        count = store.download_tree(options.source, target)
        say("fetch", f"{options.source}, {count} files")
    else:
        hub = importlib.import_module("huggingface_hub")
        try:
            hub.snapshot_download(options.hub_model, revision=options.hub_revision, local_dir=str(target))
        except Exception as error:
            refused = getattr(getattr(error, "response", None), "status_code", None) in (401, 403, 404)
            raise PodError(
                "UserError" if refused else "StoreUnavailableError",
                f"{options.hub_model} at {options.hub_revision} cannot be fetched from the hub",
                found=type(error).__name__,
                remedy="check name and revision, and the secret HF_TOKEN for a gated model"
                if refused
                else "check the way to the hub, or copy the checkpoint to S3, and run the task again",
            ) from error
        say("fetch", f"{options.hub_model} at {options.hub_revision}")
    if not (target / "config.json").is_file():
        found = ", ".join(sorted(path.name for path in target.iterdir())[:10]) or "no file"
        remedy = "put a Hugging Face checkpoint there: config.json, the weights as safetensors, the tokenizer"
        raise PodError("InputMissingError", "The checkpoint has no config.json", found=found, remedy=remedy)


def upload_tree(store: Store, root: Path, url: str) -> list[dict[str, Any]]:
    """Uploads every file below a folder; returns path, size and SHA-256 of each. Raises PodError."""
    entries = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        place = path.relative_to(root).as_posix()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        store.upload(path, f"{url}/{place}")
        entries.append({"path": place, "size_bytes": path.stat().st_size, "sha256": digest})
    say("store", f"{url}, {len(entries)} files")
    return entries


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    started = time.monotonic()
    store = Store()
    failure: PodError | None = None
    payload: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        try:
            payload = execute(store, options, Path(folder))
        except PodError as error:
            failure = error
        except Exception as error:  # whatever it is, the result must tell
            traceback.print_exc()
            failure = unexpected(error)
    code = EXIT_CODES[failure.kind] if failure else 0
    result = {
        "outcome": "error" if failure else "pass",
        "error": failure.to_json() if failure else None,
        "precision": options.precision,
        **payload,
        "tools": tool_versions(),
        "seconds": round(time.monotonic() - started, 3),
    }
    if failure is None or failure.kind != "StoreUnavailableError":
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


# ---------------------------------------------------------------- as in convert_tensorrt.py, word for word


def run_program(run: Run, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs a builder to its end within the limits, its output into the log. Raises PodError."""
    name, limit_s = command[0], max(0.0, run.ends_at - time.monotonic())
    say("build", " ".join(command))
    memory = run.options.memory_mib * 2**20
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory, memory)),
        )
    except OSError as error:
        raise PodError(
            "UserError",
            f"This image has no program {name!r}",
            found=first_line(error),
            remedy="use the image that belongs to this program, see include/images",
        ) from error
    last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
    reader = threading.Thread(target=copy_lines, args=(process.stdout or (), last), daemon=True)
    reader.start()
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise PodError(
            "TimedOutError",
            f"The tool {name!r} did not finish in time",
            expected=f"an end within {limit_s:.3g} s (all tools: {run.options.timeout_s:g} s)",
            found="still at work, and ended",
            remedy="raise conversion.timeout_s in the release file, or keep a timing cache",
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(5)
    if code != 0:
        raise program_error(name, code, list(last), run.options.memory_mib)


def copy_lines(stream: Iterable[str], last: collections.deque[str]) -> None:
    """Passes a tool's output on, line by line, and keeps the end of it."""
    for line in stream:
        print(line.rstrip(), flush=True)
        if line.strip():
            last.append(line.strip())


def program_error(name: str, code: int, lines: Sequence[str], memory_mib: int) -> PodError:
    """The error for a tool that failed: what it said that sounds most like the cause."""
    if any(OUT_OF_MEMORY.search(line) or "MemoryError" in line for line in lines):
        return memory_error(name, memory_mib)
    if code < 0:
        return crash_error(name, code)
    telling = [line for line in lines if re.search(r"\[!\]|\[E\]|\berror\b", line, re.IGNORECASE)]
    found = (telling or list(lines) or ["no output"])[-1][:300]
    return PodError(
        "ModelInvalidError",
        f"The tool {name!r} failed (exit code {code})",
        expected="an engine",
        found=found,
        remedy="read the pod's log; TensorRT knows fewer operators and types than ONNX Runtime",
    )


def fetch_if_there(store: Store, url: str, target: Path) -> bool:
    """Downloads an object that need not be there; says whether it was. Raises PodError for all other faults."""
    try:
        store.download(url, target)
    except PodError as error:
        if error.kind != "InputMissingError":
            raise
        target.unlink(missing_ok=True)
        return False
    return True


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
        return {key: getattr(self, key) for key in ("kind", "what", "expected", "found", "remedy")}


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


class Store:
    """S3, by the standard AWS_* environment; its errors become PodErrors."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        retries: Any = {"mode": "standard", "total_max_attempts": 4}
        self._client = boto3.client("s3", config=Config(connect_timeout=5, read_timeout=60, retries=retries))

    def download(self, url: str, target: Path) -> None:
        """Writes an object to a file. Raises PodError."""
        self._call(url, lambda bucket, key: self._client.download_file(bucket, key, str(target)))

    def download_tree(self, url: str, folder: Path) -> int:
        """Writes all objects below an address into a folder; returns how many. Raises PodError."""
        found: list[str] = []

        def listed(bucket: str, key: str) -> None:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{key}/")
            found.extend(entry["Key"] for page in pages for entry in page.get("Contents", ()))

        self._call(url, listed)
        bucket, key = split_url(url)
        files = [name for name in found if not name.endswith("/")]
        if not files:
            raise store_error(url, {"Error": {"Code": "NoSuchKey"}})
        for name in files:
            target = folder / name.removeprefix(f"{key}/")
            if ".." in target.parts:
                raise PodError("UserError", f"{name} is no plain path", remedy="rename it")
            target.parent.mkdir(parents=True, exist_ok=True)
            self.download(f"s3://{bucket}/{name}", target)
        return len(files)

    def upload(self, source: Path, url: str) -> None:
        """Writes a file to an object. Raises PodError."""
        self._call(url, lambda bucket, key: self._client.upload_file(str(source), bucket, key))

    def write_json(self, value: Mapping[str, Any], url: str) -> None:
        """Writes a value as a JSON object. Raises PodError."""
        body = json.dumps(value, indent=2, allow_nan=False).encode()
        kind = "application/json"
        self._call(
            url,
            lambda bucket, key: self._client.put_object(Bucket=bucket, Key=key, Body=body, ContentType=kind),
        )

    def delete(self, url: str) -> None:
        """Removes an object; one that is not there is no error. Raises PodError."""
        self._call(url, lambda bucket, key: self._client.delete_object(Bucket=bucket, Key=key))

    @staticmethod
    def _call(url: str, act: Callable[[str, str], Any]) -> None:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            act(*split_url(url))
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
        remedy = "give the pod's service account a role that may read and write the bucket"
        return PodError("UserError", f"S3 refuses access to {url}", found=code, remedy=remedy)
    found = f"{code} (HTTP {status})"
    return PodError("StoreUnavailableError", f"S3 fails for {url}", found=found, remedy="run the task again")


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


def share(text: str) -> float:
    """An argument that must be a number from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, found {text!r}")
    return value


def whole(text: str) -> int:
    """An argument that must be a whole number above 0."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return value


def memory_error(name: str, memory_mib: int) -> PodError:
    """The error for a tool that asked for more memory than it may have."""
    return PodError(
        "UserError",
        f"The tool {name!r} wanted more memory than it may have",
        expected=f"at most {memory_mib} MiB",
        found="an allocation that was refused",
        remedy="raise conversion.resources.memory in the release file; if it does not help, export it again",
    )


def crash_error(name: str, exit_code: int) -> PodError:
    """The error for a child that died without an answer."""
    number = -exit_code
    how = signal.Signals(number).name if number in set(signal.Signals) else f"exit code {exit_code}"
    memory = " (most often: out of memory)" if how in ("SIGKILL", "SIGABRT") else ""
    return PodError(
        "ModelInvalidError",
        f"The tool {name!r} crashed on this model",
        found=f"{how}{memory}",
        remedy="raise conversion.resources.memory in the release file; if it does not help, export it again",
    )


def unexpected(error: BaseException) -> PodError:
    """The error for what this program did not foresee; the log holds the traceback."""
    return PodError(
        "SlipwayError",
        "The converter failed in a way it does not know",
        found=f"{type(error).__name__}: {first_line(error)}",
        remedy="read the pod's log for the traceback, and report it",
    )


if __name__ == "__main__":
    raise SystemExit(main())
