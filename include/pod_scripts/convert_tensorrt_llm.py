#!/usr/bin/env python3
"""Builds TensorRT-LLM engines from a Hugging Face checkpoint, and the Triton repository around them.

Fetches the checkpoint (a folder in S3, or a model of the Hugging Face hub at a fixed revision), runs
convert_checkpoint.py and trtllm-build, and fills in the inflight-batcher repository: an ensemble of preprocessing,
tensorrt_llm and postprocessing. The configurations are parsed, filled in and written with Triton's own protobuf
message: a template's placeholder that nobody has a value for is an error here and not when the server loads it.

Writes the files under DESTINATION/repository/ as they will lie in the published repository, then `sbom.json` (the
packages of this image) and, last, `result.json`, which is written whatever happened, as long as S3 answers. There is no
parity here: the release's validation compares what the models answer.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 75 try again later (S3 or the hub does not answer, time is up);
1 an error in this program.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.conversion.gpu import Gpu, read_gpu, timing_cache_url
from slipway_pod.conversion.inflight_batcher import lay_out, make_configs
from slipway_pod.errors import PodError
from slipway_pod.models.tensors import Signature
from slipway_pod.models.triton_files import config_text, declared_tensors
from slipway_pod.program.arguments import new_parser, positive, s3_url, share, whole
from slipway_pod.program.limits import Limits
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.scratch import scratch_folder
from slipway_pod.program.software import tool_versions, upload_software_list
from slipway_pod.program.subprograms import run_builder
from slipway_pod.storage.s3 import Store

PACKAGES = ("protobuf", "tensorrt", "tensorrt_llm", "tritonclient")
# Where the image has NVIDIA's scripts and templates, at the tag of its TensorRT-LLM.
HOME = Path("/opt/tensorrt-llm")
TEMPLATES = HOME / "triton_backend/all_models/inflight_batcher_llm"
SCRIPT = "examples/models/core/{family}/convert_checkpoint.py"
TIMINGS_FILE = "timing.cache"
WEIGHT_ONLY = {"int8": "int8", "int4": "int4"}
DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
SCHEDULERS = ("guaranteed_no_evict", "max_utilization")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = new_parser(__doc__)
    for describe in (checkpoint_arguments, build_arguments, serving_arguments, tool_arguments):
        describe(parser.add_argument)
    options = parser.parse_args(argv)
    check_arguments(parser, options)
    return options


def checkpoint_arguments(add: Callable[..., Any]) -> None:
    """Add the arguments that say what is converted, and into what."""
    add("--source", type=s3_url, help="the checkpoint's folder, s3://BUCKET/PREFIX")
    text = "instead of --source: a model of the Hugging Face hub (HF_TOKEN)"
    add("--hub-model", metavar="ORG/NAME", help=text)
    text = "its commit: 40 hexadecimal digits, so that a build can be repeated"
    add("--hub-revision", metavar="COMMIT", help=text)
    add("--golden", type=s3_url, help="taken as other converters do, and not used")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    text = "what the ensemble is called; members are called MODEL_preprocessing, …"
    add("--model", required=True, help=text)
    add("--version", required=True, type=whole, help="the version's number")
    add("--serving-root", default="/mnt/models", help="where the server has the repository (%(default)s)")


def build_arguments(add: Callable[..., Any]) -> None:
    """Add the arguments that say how the engines are built."""
    add("--family", default="llama", help="the folder of convert_checkpoint.py in the examples (%(default)s)")
    precisions = [*DTYPES, *WEIGHT_ONLY]
    add("--precision", choices=precisions, default="bf16", help="int8 and int4: weights (%(default)s)")
    dtypes = ["auto", *DTYPES.values()]
    add("--dtype", choices=dtypes, default="auto", help="in addition to int8 and int4 (%(default)s)")
    add("--tp-size", type=whole, default=1, help="tensor parallelism (%(default)s)")
    add("--pp-size", type=whole, default=1, help="pipeline parallelism (%(default)s)")
    add("--max-batch-size", type=whole, default=256, help="requests at the same time (%(default)s)")
    text = "tokens of a step, all requests together (%(default)s)"
    add("--max-num-tokens", type=whole, default=8192, help=text)
    add("--max-input-len", type=whole, default=1024, help="tokens of a prompt (%(default)s)")
    add("--max-seq-len", type=whole, help="tokens of prompt and answer; left out: the model's own limit")
    add("--max-beam-width", type=whole, default=1, help="(%(default)s)")
    text = "several optimisation profiles: slower to build, faster"
    add("--multiple-profiles", action="store_true", help=text)
    text = "fuse the reduction after a layer; with tensor parallelism"
    add("--reduce-fusion", action="store_true", help=text)
    text = "a contiguous cache; requests are then not batched in flight"
    add("--no-paged-kv-cache", action="store_true", help=text)
    add("--no-paged-context-fmha", action="store_true", help="then neither cache reuse nor chunked prompts")
    add("--gemm-plugin", choices=[*dtypes, "disable"], default="auto", help="(%(default)s)")
    add("--timing-cache", type=s3_url, help="read before and written after the build, s3://BUCKET/PREFIX")


def serving_arguments(add: Callable[..., Any]) -> None:
    """Add the arguments that say how the server uses the engines."""
    text = "of the free GPU memory, for the cache (%(default)s)"
    add("--kv-cache-fraction", type=share, default=0.9, help=text)
    add("--kv-cache-reuse", action="store_true", help="keep the cache of prompts that begin alike")
    add("--chunked-context", action="store_true", help="split long prompts among steps")
    text = "who waits when memory is short (%(default)s)"
    add("--scheduler", choices=SCHEDULERS, default=SCHEDULERS[0], help=text)
    add("--streaming", action="store_true", help="tokens as they come: the model is decoupled")
    add("--max-queue-delay-us", type=int, default=0, help="(%(default)s)")
    text = "of preprocessing and of postprocessing (%(default)s)"
    add("--tokenizer-instances", type=whole, default=1, help=text)


def tool_arguments(add: Callable[..., Any]) -> None:
    """Add the arguments that say where NVIDIA's tools lie, and their limits."""
    add("--templates", type=Path, default=TEMPLATES, help="the inflight-batcher templates (%(default)s)")
    add("--examples", type=Path, default=HOME, help="the parent of the folder `examples` (%(default)s)")
    add("--tool-python", default="/usr/bin/python3", help="the Python that has TensorRT-LLM (%(default)s)")
    text = "limit for all tools together, in seconds (%(default)s)"
    add("--timeout-s", type=positive, default=7200.0, help=text)
    text = "limit for each tool's own memory, in MiB (%(default)s)"
    add("--memory-mib", type=whole, default=65536, help=text)


def check_arguments(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with exit code 2 when arguments contradict each other."""
    if bool(options.source) == bool(options.hub_model):
        parser.error("give either --source or --hub-model")
    if options.hub_model and not re.fullmatch(r"[0-9a-f]{40}", options.hub_revision or ""):
        parser.error(
            "--hub-model needs --hub-revision, a commit of 40 hexadecimal digits: a branch would move"
        )
    if options.reduce_fusion and options.tp_size == 1:
        parser.error("--reduce-fusion needs --tp-size above 1: one GPU has nothing to reduce")
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


def checkpoint_command(options: argparse.Namespace, folder: Path) -> list[str]:
    """Return the command line of convert_checkpoint.py (TensorRT-LLM 0.21)."""
    command = [options.tool_python, str(options.examples / SCRIPT.format(family=options.family))]
    command += ["--model_dir", str(folder / "source"), "--output_dir", str(folder / "checkpoint")]
    command += ["--dtype", DTYPES.get(options.precision, options.dtype)]
    command += ["--tp_size", str(options.tp_size), "--pp_size", str(options.pp_size)]
    command += ["--workers", str(options.tp_size * options.pp_size)]
    if options.precision in WEIGHT_ONLY:
        command += ["--use_weight_only", "--weight_only_precision", WEIGHT_ONLY[options.precision]]
    return command


def engine_command(options: argparse.Namespace, folder: Path, *, has_timings: bool) -> list[str]:
    """Return the command line of trtllm-build (TensorRT-LLM 0.21)."""
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
    # In-flight batching needs this besides the paged cache.
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
    command += ["--input_timing_cache", str(folder / TIMINGS_FILE)] if has_timings else []
    return [*command, "--output_timing_cache", str(folder / TIMINGS_FILE)]


def require_engine(options: argparse.Namespace, folder: Path) -> None:
    """Raise PodError unless there is an engine for each rank, and the configuration that the server reads."""
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


# ---------------------------------------------------------------- the run


def work(options: argparse.Namespace, store: Store, result: dict[str, Any]) -> None:
    """Fetch, build, lay out, upload; fill in `result` on the way."""
    result |= {"precision": options.precision, "parity": []}
    with scratch_folder("convert-") as folder:
        limits = Limits(options.timeout_s, options.memory_mib)
        with limits.spend():
            gpu = read_gpu()
            machine = describe_machine(gpu, options)
            # A template that cannot be filled in is found before the hours of building.
            configs = make_configs(options)
            fetch_checkpoint(store, options, folder / "source")
        result["engine"] = machine
        if options.source is None:
            result["hub"] = {"name": options.hub_model, "revision": options.hub_revision}
        timings = timing_cache_url(options.timing_cache, gpu, machine["tensorrt"])
        result["build"] = build(store, options, folder, limits, timings)
        lay_out(options, folder)
        place = f"{options.destination}/repository"
        files = store.upload_folder(folder / "repository", place)
        say("store", f"{place}, {len(files)} files")
    texts = {name: config_text(message) for name, message in configs.items()}
    result["repository"] = {"files": files, "configs": texts}
    result["signature"] = signature_of(configs[options.model]).to_json()


def describe_machine(gpu: Gpu, options: argparse.Namespace) -> dict[str, Any]:
    """Return the GPUs, all of one kind, and the versions of what builds."""
    versions = tool_versions(PACKAGES)
    say("machine", f"{gpu.name}, compute capability {gpu.compute_capability}")
    return {
        "gpu": gpu.name,
        "compute_capability": gpu.compute_capability,
        "driver": gpu.driver,
        "tensorrt": versions.get("tensorrt", "unknown"),
        "tensorrt_llm": versions.get("tensorrt_llm", "unknown"),
        "cuda": os.environ.get("CUDA_VERSION"),
        "gpus": options.tp_size * options.pp_size,
    }


def fetch_checkpoint(store: Store, options: argparse.Namespace, target: Path) -> None:
    """Download the checkpoint from S3 or from the hub."""
    target.mkdir()
    if options.source is not None:
        say("fetch", f"{options.source}, {store.download_folder(options.source, target)} files")
    else:
        fetch_from_hub(options.hub_model, options.hub_revision, target)
    if not (target / "config.json").is_file():
        found = ", ".join(sorted(path.name for path in target.iterdir())[:10]) or "no file"
        remedy = "put a Hugging Face checkpoint there: config.json, the weights as safetensors, the tokenizer"
        raise PodError("InputMissingError", "The checkpoint has no config.json", found=found, remedy=remedy)


def fetch_from_hub(model: str, revision: str, target: Path) -> None:
    """Download a model of the Hugging Face hub."""
    hub = importlib.import_module("huggingface_hub")
    try:
        hub.snapshot_download(model, revision=revision, local_dir=str(target))
    except Exception as error:
        refused = getattr(getattr(error, "response", None), "status_code", None) in (401, 403, 404)
        raise PodError(
            "UserError" if refused else "StoreUnavailableError",
            f"{model} at {revision} cannot be fetched from the hub",
            found=type(error).__name__,
            remedy="check name and revision, and the secret HF_TOKEN for a gated model"
            if refused
            else "check the way to the hub, or copy the checkpoint to S3, and run the task again",
        ) from error
    say("fetch", f"{model} at {revision}")


def build(
    store: Store, options: argparse.Namespace, folder: Path, limits: Limits, timings: str | None
) -> dict[str, Any]:
    """Build the engines; the timings are fetched before and put back after, for the next build."""
    cache = folder / TIMINGS_FILE
    has_timings = timings is not None and store.fetch_if_there(timings, cache)
    commands = [checkpoint_command(options, folder), engine_command(options, folder, has_timings=has_timings)]
    for command in commands:
        run_builder(command, limits)
    require_engine(options, folder)
    if timings is not None and cache.exists():
        store.upload(cache, timings)
    shown = [[part.replace(str(folder), ".") for part in command] for command in commands]
    return {"commands": shown, "timing_cache": "used" if has_timings else "new"}


def signature_of(config: Any) -> Signature:
    """Return what clients send and get."""
    return Signature(*(declared_tensors(config, kind, config.name) for kind in ("input", "output")))


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(argv)
    return run_to_result(
        options.destination,
        partial(work, options),
        tools=lambda: tool_versions(PACKAGES),
        last=upload_software_list,
    )


if __name__ == "__main__":
    raise SystemExit(main())
