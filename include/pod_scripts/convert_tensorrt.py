#!/usr/bin/env python3
"""Builds a TensorRT engine from an ONNX model on this pod's GPU, and compares it with the model over the golden set.

Reads the model, the golden set and, where they are, calibration data and the timing cache from S3; builds with
`polygraphy convert`; answers the golden set with ONNX Runtime (the source) and with the engine. Writes `model.plan`,
`sbom.json` and, last, `result.json` under the destination; the result says on which GPU and with which TensorRT the
engine was built, since it runs on no other. Every tool runs in a process of its own, which ends when it takes too long
or too much memory.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the engine answers otherwise than the source; 75 try again
later (S3 does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import difflib
import hashlib
import importlib
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "onnx", "onnxruntime", "polygraphy", "tensorrt")
PRECISIONS = ("fp32", "fp16", "int8")
COMPATIBILITY = ("none", "same_compute_capability", "ampere_plus")
TACTICS = ("cublas", "cublas_lt", "cudnn", "edge_mask_convolutions", "jit_convolutions")
# How the calibration rows reach the builder, which reads this file as its data loader.
CALIBRATION_FILE = "SLIPWAY_CALIBRATION_FILE"
CALIBRATION_BATCH = "SLIPWAY_CALIBRATION_BATCH"
LAST_LINES = 40
# A CUDA context, TensorRT's kernels and the weights, several times over.
MEMORY_MIB = 12288

# One optimisation profile: the shape of each input under `min`, `opt` and `max`, batch first.
Profile = dict[str, dict[str, list[int]]]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = common_parser(__doc__ or "", precisions=PRECISIONS)
    parser.set_defaults(memory_mib=MEMORY_MIB)
    add = parser.add_argument
    add(
        "--max-batch-size",
        type=whole,
        default=64,
        help="of the profile that is made if none is given (%(default)s)",
    )
    add("--opt-batch-size", type=whole, help="the batch that the profile is tuned for (the largest)")
    add(
        "--profile",
        action="append",
        type=profile,
        default=[],
        metavar="JSON",
        help='an optimisation profile: {"INPUT": {"min": [1, 64], "opt": [8, 64], "max": [16, 64]}}; may be repeated',
    )
    add(
        "--calibration", type=s3_url, help="int8: rows of training data, s3://BUCKET/KEY.npz, for a new cache"
    )
    add("--calibration-cache", type=s3_url, help="int8: read if it is there, else written, s3://BUCKET/KEY")
    add("--timing-cache", type=s3_url, help="read before and written after the build, s3://BUCKET/PREFIX")
    add("--workspace-mib", type=whole, help="GPU memory for the builder's and the engine's scratch space")
    add("--builder-optimization-level", type=int, choices=range(6), default=3, help="(%(default)s)")
    add("--tf32", action="store_true", help="let fp32 layers use TF32")
    add("--sparse-weights", action="store_true", help="use structured sparsity where the weights have it")
    add("--refittable", action="store_true", help="let weights be exchanged in the finished engine")
    add(
        "--version-compatible",
        action="store_true",
        help="let later TensorRT of this major version load the engine",
    )
    add("--hardware-compatibility", choices=COMPATIBILITY, default="none", help="(%(default)s)")
    add("--precision-constraints", choices=["none", "prefer", "obey"], default="none", help="(%(default)s)")
    add("--tactic-source", action="append", choices=TACTICS, help="only these; may be repeated")
    add("--max-aux-streams", type=int, help="streams beside the main one")
    options = parser.parse_args(argv)
    if options.precision == "int8" and not (options.calibration or options.calibration_cache):
        parser.error(
            "--precision int8 needs --calibration or --calibration-cache: without scales the engine is noise"
        )
    if options.precision != "int8" and (options.calibration or options.calibration_cache):
        parser.error("--calibration and --calibration-cache are only for --precision int8")
    if options.opt_batch_size and options.opt_batch_size > options.max_batch_size:
        parser.error("--opt-batch-size is above --max-batch-size")
    return options


def profile(text: str) -> Profile:
    """An argument such as `{"x": {"min": [1, 4], "opt": [8, 4], "max": [16, 4]}}`, by place and then by input."""
    wanted = '{"INPUT": {"min": [...], "opt": [...], "max": [...]}}'
    try:
        given = json.loads(text)
        found: Profile = {
            place: {name: [int(size) for size in shapes[place]] for name, shapes in given.items()}
            for place in ("min", "opt", "max")
        }
        known = all(set(shapes) == {"min", "opt", "max"} for shapes in given.values())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"expected {wanted}, found {text}") from error
    if not given or not known:
        raise argparse.ArgumentTypeError(f"expected {wanted}, found {text}")
    for name in given:
        shapes = [found[place][name] for place in ("min", "opt", "max")]
        sizes = zip(*shapes, strict=False)
        if len({len(shape) for shape in shapes}) != 1 or any(not 0 < a <= b <= c for a, b, c in sizes):
            raise argparse.ArgumentTypeError(
                f"expected 0 < min <= opt <= max in each size of {name!r}, found {text}"
            )
    return found


# ---------------------------------------------------------------- the machine


def describe_machine(run: Run) -> dict[str, Any]:
    """The GPU's name and compute capability, and the versions of TensorRT, CUDA and the driver. Raises PodError."""
    command = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    remedy = "ask for `conversion.resources.gpu: 1`, and choose GPU nodes by conversion.node_selector and tolerations"
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
    versions = run.tool("versions", library_versions)
    return {
        "gpu": name,
        "compute_capability": capability,
        "driver": driver,
        **versions,
        "hardware_compatibility": run.options.hardware_compatibility,
        "version_compatible": run.options.version_compatible,
    }


def library_versions() -> dict[str, Any]:
    """TensorRT's and CUDA's versions, as the libraries themselves say."""
    try:
        tensorrt = importlib.import_module("tensorrt")
    except ImportError as error:
        raise PodError(
            "UserError",
            "This image has no TensorRT",
            expected="the Python module tensorrt",
            found=first_line(error),
            remedy="use the image of include/images/tensorrt",
        ) from error
    return {"tensorrt": str(tensorrt.__version__), "cuda": cuda_version()}


def cuda_version() -> str | None:
    """The version of CUDA's runtime library, if it can be found."""
    for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12"):
        with contextlib.suppress(OSError, AttributeError):
            number = ctypes.c_int()
            if ctypes.CDLL(name).cudaRuntimeGetVersion(ctypes.byref(number)) == 0:
                return f"{number.value // 1000}.{number.value % 1000 // 10}"
    return None


def timing_cache_url(options: argparse.Namespace, machine: Mapping[str, Any]) -> str | None:
    """Where the timings of this GPU and TensorRT lie: they say nothing of others."""
    if options.timing_cache is None:
        return None
    gpu = re.sub(r"[^a-z0-9]+", "-", machine["gpu"].lower()).strip("-")
    return f"{options.timing_cache}/{gpu}-sm{machine['compute_capability']}-trt{machine['tensorrt']}.cache"


# ---------------------------------------------------------------- the build


def choose_profiles(options: argparse.Namespace, signature: Signature) -> list[Profile]:
    """The profiles that were given, checked; or one for a model of which only the batch varies. Raises PodError."""
    varying = [tensor for tensor in signature.inputs if tensor.shape is None or -1 in tensor.shape]
    for given in options.profile:
        require_profile_fits(given, signature)
    if options.profile or not varying:
        return list(options.profile)
    loose = [tensor.name for tensor in varying if tensor.shape is None or -1 in tensor.shape[1:]]
    if loose:
        raise PodError(
            "ModelInvalidError",
            f"The input {loose[0]!r} varies in more than its batch",
            expected="an optimisation profile with its smallest, usual and largest shape",
            found=f"shape {next(list(t.shape or ()) for t in varying if t.name == loose[0])}",
            remedy="write conversion.profiles in the release file",
        )
    sizes = {"min": 1, "opt": options.opt_batch_size or options.max_batch_size, "max": options.max_batch_size}
    return [
        {
            place: {
                tensor.name: [
                    size if index == 0 and fixed == -1 else fixed for index, fixed in enumerate(tensor.shape)
                ]
                for tensor in signature.inputs
                if tensor.shape is not None
            }
            for place, size in sizes.items()
        }
    ]


def require_profile_fits(given: Profile, signature: Signature) -> None:
    """Raises PodError unless a profile speaks of each input, in its rank and its fixed sizes."""
    known = {tensor.name: tensor for tensor in signature.inputs}
    problem = next((f"{name!r} is no input" for name in given["min"] if name not in known), None)
    problem = problem or next((f"{name!r} is left out" for name in known if name not in given["min"]), None)
    for name, tensor in known.items() if problem is None else ():
        for place in ("min", "opt", "max"):
            shape, wanted = given[place][name], tensor.shape or tuple([-1] * len(given[place][name]))
            if len(shape) != len(wanted) or any(b not in (-1, a) for a, b in zip(shape, wanted, strict=True)):
                problem = f"{place} of {name!r} is {shape}, the model takes {list(wanted)}"
    if problem is not None:
        raise PodError(
            "ModelInvalidError",
            "An optimisation profile does not fit the model",
            expected=f"shapes for {', '.join(known)}",
            found=problem,
            remedy="correct conversion.profiles in the release file",
        )


def build_command(
    options: argparse.Namespace,
    folder: Path,
    profiles: Sequence[Profile],
    *,
    has_timings: bool = False,
    calibrates: bool = False,
) -> list[str]:
    """The builder's command line (polygraphy 0.49 and later)."""
    timings = str(folder / "timing.cache")
    command = ["polygraphy", "convert", str(folder / "source.onnx"), "--convert-to", "trt"]
    command += ["--output", str(folder / "model.plan")]
    command += ["--fp16"] if options.precision in ("fp16", "int8") else []
    if options.precision == "int8":
        command += ["--int8", "--calibration-cache", str(folder / "calibration.cache")]
        if calibrates:
            command += ["--data-loader-script", f"{Path(__file__).resolve()}:calibration_batches"]
    for one in profiles:
        for place, shapes in one.items():
            command += [
                f"--trt-{place}-shapes",
                *(f"{name}:{json.dumps(shape)}" for name, shape in shapes.items()),
            ]
    command += ["--load-timing-cache", timings] if has_timings else []
    command += ["--save-timing-cache", timings]
    command += ["--builder-optimization-level", str(options.builder_optimization_level)]
    command += ["--pool-limit", f"workspace:{options.workspace_mib}M"] if options.workspace_mib else []
    flags = ("tf32", "sparse_weights", "refittable", "version_compatible")
    command += [f"--{flag.replace('_', '-')}" for flag in flags if getattr(options, flag)]
    if options.hardware_compatibility != "none":
        command += ["--hardware-compatibility-level", options.hardware_compatibility]
    if options.precision_constraints != "none":
        command += ["--precision-constraints", options.precision_constraints]
    if options.max_aux_streams is not None:
        command += ["--max-aux-streams", str(options.max_aux_streams)]
    # Takes any number of values, so it comes last.
    command += ["--tactic-sources", *options.tactic_source] if options.tactic_source else []
    return command


def calibration_batches() -> Iterator[dict[str, Any]]:
    """Called by the builder: the calibration rows in batches of the profile's usual size, whole ones only."""
    import numpy as np

    size = int(os.environ[CALIBRATION_BATCH])
    with np.load(os.environ[CALIBRATION_FILE], allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    rows = min(len(array) for array in arrays.values())
    for start in range(0, rows - size + 1, size):
        yield {name: np.ascontiguousarray(array[start : start + size]) for name, array in arrays.items()}


def prepare_calibration(run: Run, signature: Signature, profiles: Sequence[Profile]) -> dict[str, str]:
    """Writes the rows that the builder will read, for the model's inputs alone; returns its environment."""
    import numpy as np

    path = run.folder / "calibration.npz"
    rows = read_golden(path, run.options.calibration, signature.inputs)
    batches = (
        {shape[0] for shape in profiles[-1]["opt"].values()} if profiles else {fixed_batch(signature) or 1}
    )
    size = max(batches)
    available = len(next(iter(rows.values())))
    if available < size:
        raise PodError(
            "GoldenSetError",
            "The calibration set has not one whole batch",
            expected=f"at least {size} rows, the usual batch of the last profile",
            found=f"{available} rows",
            remedy="bring more rows, or a smaller conversion.opt_batch_size",
        )
    np.savez(run.folder / "calibration-rows.npz", **rows)
    return {CALIBRATION_FILE: str(run.folder / "calibration-rows.npz"), CALIBRATION_BATCH: str(size)}


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


# ---------------------------------------------------------------- the engine's answers


class Engine:
    """An engine that answers as an ONNX Runtime session does, in batches that its first profile allows."""

    def __init__(self, runner: Any, profiles: Sequence[Profile]) -> None:
        self._runner = runner
        self._least = max((shape[0] for shape in profiles[0]["min"].values()), default=1) if profiles else 1
        self._most = min((shape[0] for shape in profiles[0]["max"].values()), default=1) if profiles else None

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The wanted outputs, or all, one row for each row that is fed."""
        import numpy as np

        rows = len(next(iter(feeds.values())))
        step, parts = self._most or rows, []
        for start in range(0, rows, step):
            wanted = min(step, rows - start)
            # Too few rows for the profile: the last one is repeated.
            taken = np.minimum(np.arange(start, start + max(wanted, self._least)), rows - 1)
            fed = {name: np.ascontiguousarray(array[taken]) for name, array in feeds.items()}
            answers = self._runner.infer(fed, copy_outputs_to_host=True)
            # The runner's buffers are used again for the next batch.
            parts.append({name: np.array(value)[:wanted] for name, value in answers.items()})
        return [np.concatenate([part[name] for part in parts]) for name in names or parts[0]]


@contextlib.contextmanager
def open_engine(path: Path, profiles: Sequence[Profile]) -> Iterator[Engine]:
    """The engine in this process, on the GPU. Raises PodError when it cannot be loaded."""
    common = importlib.import_module("polygraphy.backend.common")
    backend = importlib.import_module("polygraphy.backend.trt")
    runner = backend.TrtRunner(backend.EngineFromBytes(common.BytesFromPath(str(path))))
    try:
        runner.activate()
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            "The engine that was just built cannot be loaded",
            found=first_line(error),
            remedy="read the pod's log; it may need more GPU memory than is free",
        ) from error
    try:
        yield Engine(runner, profiles)
    finally:
        runner.deactivate()


def keep_source_answers(run: Run) -> Signature:
    """Checks the source, keeps what it answers with every optimisation off, and tells its signature."""
    path, name = run.folder / "source.onnx", run.options.source
    model = load_checked(path, name)
    session = open_session(path, name, optimise=False)
    signature = read_signature(session)
    say("check", f"{len(model.graph.node)} nodes, {path.stat().st_size} bytes, valid")
    strange = [t for t in (*signature.inputs, *signature.outputs) if t.datatype in ("BYTES", "FP64")]
    if strange:
        raise PodError(
            "ModelInvalidError",
            f"TensorRT cannot carry {strange[0].name!r}",
            expected="tensors of FP32, FP16, BF16, INT64, INT32, INT8, UINT8 or BOOL",
            found=strange[0].datatype,
            remedy="cast it in the model, or keep the model as ONNX (conversion.target: onnx)",
        )
    golden = read_golden(run.folder / "golden.npz", run.options.golden, signature.inputs)
    keep_reference(run, golden, lambda rows: answer_all(session, signature, rows, "the source model"))
    answers = read_arrays(run.folder / "reference.npz", "the reference")
    return with_known_ranks(signature, answers)


def examine(run: Run, signature: Signature, profiles: Sequence[Profile]) -> dict[str, Any]:
    """Holds the engine against the reference, over the golden set: parity table and latency."""
    golden = read_golden(run.folder / "golden.npz", run.options.golden, signature.inputs)
    reference = read_arrays(run.folder / "reference.npz", "the reference")
    with open_engine(run.folder / "model.plan", profiles) as engine:
        answers = answer_all(engine, signature, golden, "the engine")
        latency = measure_latency(engine, signature, golden)
    parity = [
        compare_output(name, reference[name], answers[name], rule_for(name, run.options))
        for name in reference
    ]
    what = "in process, TensorRT on the conversion pod's GPU; to compare variants, no benchmark of a server"
    return {"parity": parity, "latency": {**latency, "what": what}}


# ---------------------------------------------------------------- the run


def execute(store: Store, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Downloads, builds, compares, uploads the engine; returns the payload, or raises PodError."""
    # A result of an earlier attempt must never be taken for this one's.
    store.delete(f"{options.destination}/result.json")
    run = Run(options, folder, time.monotonic() + options.timeout_s)
    machine = describe_machine(run)
    say(
        "machine",
        f"{machine['gpu']}, compute capability {machine['compute_capability']}, "
        f"TensorRT {machine['tensorrt']}",
    )
    store.download(options.source, folder / "source.onnx")
    store.download(options.golden, folder / "golden.npz")
    say("fetch", f"{options.source}, {options.golden}")
    signature = run.tool("check", lambda: keep_source_answers(run))
    profiles = choose_profiles(options, signature)
    payload = {"engine": machine, "profiles": profiles, "signature": signature.to_json()}
    payload |= build(store, run, machine, signature, profiles)
    payload |= run.tool("compare", lambda: examine(run, signature, profiles))
    payload["model"] = described(folder / "model.plan")
    require_parity(payload["parity"], run, payload)
    say("parity", f"{payload['parity'][0]['rows']} rows alike in {len(payload['parity'])} outputs")
    store.upload(folder / "model.plan", f"{options.destination}/model.plan")
    say("store", f"{options.destination}/model.plan, {payload['model']['size_bytes']} bytes")
    return payload


def build(
    store: Store, run: Run, machine: Mapping[str, Any], signature: Signature, profiles: Sequence[Profile]
) -> dict[str, Any]:
    """Builds the engine; the caches are fetched before and put back after, for the next build. Raises PodError."""
    options, timings = run.options, timing_cache_url(run.options, machine)
    has_timings = timings is not None and fetch_if_there(store, timings, run.folder / "timing.cache")
    scales = options.calibration_cache
    has_scales = scales is not None and fetch_if_there(store, scales, run.folder / "calibration.cache")
    calibrates = options.precision == "int8" and not has_scales
    environment: dict[str, str] = {}
    if calibrates:
        if options.calibration is None:
            raise PodError(
                "InputMissingError",
                f"There is no {scales}",
                expected="a calibration cache, or --calibration to make one of",
                remedy="name calibration data in the release file (conversion.calibration)",
            )
        store.download(options.calibration, run.folder / "calibration.npz")
        environment = prepare_calibration(run, signature, profiles)
    command = build_command(options, run.folder, profiles, has_timings=has_timings, calibrates=calibrates)
    run_program(run, command, environment)
    for url, name in ((timings, "timing.cache"), (scales if calibrates else None, "calibration.cache")):
        if url is not None and (run.folder / name).exists():
            store.upload(run.folder / name, url)
            say("store", url)
    shown = [part.replace(str(run.folder), ".") for part in command]
    return {"build": {"command": shown, "timing_cache": "used" if has_timings else "new"}}


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


def tool_versions() -> dict[str, str]:
    """The versions of what had a hand in the result; a library that came without its metadata is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


# ---------------------------------------------------------------- as in convert_onnx.py, word for word

EXIT_CODES = {
    "UserError": 3,
    "InputMissingError": 3,
    "ModelInvalidError": 3,
    "GoldenSetError": 3,
    "ParityRefusedError": 4,
    "StoreUnavailableError": 75,
    "TimedOutError": 75,
    "SlipwayError": 1,
}
# Triton's word for each element type that ONNX Runtime names.
DATATYPES = {
    "tensor(float)": "FP32",
    "tensor(float16)": "FP16",
    "tensor(bfloat16)": "BF16",
    "tensor(double)": "FP64",
    **{
        f"tensor({sign}int{bits})": f"{sign}int{bits}".upper()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "tensor(bool)": "BOOL",
    "tensor(string)": "BYTES",
}
NUMPY_NAMES = {"FP32": "float32", "FP16": "float16", "FP64": "float64", "BOOL": "bool"}
BATCH_ROWS = 64
WORST_ROWS = 5
LATENCY_RUNS = 200
LATENCY_LIMIT_S = 2.0
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|bad allocation|failed to allocate|can(no|')t allocate memory", re.IGNORECASE
)


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


# -------- S3


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


# -------- the command line


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


def not_negative(text: str) -> float:
    """An argument that must be a finite number, 0 or above."""
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"expected a number of 0 or above, found {text!r}")
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


@dataclass(frozen=True)
class Rule:
    """What an output is held to; one `measure` decides, the others are only reported.

    tolerance: at least `within_min` of the rows have |source - converted| <= abs + rel * |source| in every
    element. cosine: each row's vector has a cosine similarity of at least `cosine_min` with the source's.
    top_k: in at least `agreement_min` of the rows the `top_k` best classes are the source's. Outputs that are
    no vectors of fractions (labels, text, one number a row) are held to equality or to the tolerance.
    """

    measure: str = "tolerance"
    abs_tolerance: float = 1e-4
    rel_tolerance: float = 1e-3
    within_min: float = 1.0
    cosine_min: float = 0.999
    top_k: int = 1
    agreement_min: float = 0.99


MEASURES = ("tolerance", "cosine", "top_k")
RULE_TYPES: dict[str, Callable[[str], Any]] = {
    "abs_tolerance": not_negative,
    "rel_tolerance": not_negative,
    "within_min": share,
    "cosine_min": share,
    "top_k": whole,
    "agreement_min": share,
}


def output_rule(text: str) -> dict[str, Any]:
    """An argument such as `{"output": "label", "measure": "top_k", "agreement_min": 0.99}`."""
    try:
        given = json.loads(text)
        if given.get("measure", MEASURES[0]) not in MEASURES:
            raise argparse.ArgumentTypeError(f"expected a measure of {', '.join(MEASURES)}, found {text}")
        checked = {key: RULE_TYPES[key](str(value)) for key, value in given.items() if key in RULE_TYPES}
        if not set(given) <= {*checked, "output", "measure"} or not isinstance(given["output"], str):
            raise KeyError("output")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        keys = ", ".join(("measure", *RULE_TYPES))
        raise argparse.ArgumentTypeError(f"expected a JSON object with output and any of {keys}") from error
    return {**given, **checked}


def common_parser(description: str, precisions: Sequence[str] = ("fp32",)) -> argparse.ArgumentParser:
    """The arguments that every converter has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, default = parser.add_argument, Rule()
    add("--source", required=True, type=s3_url, help="the trained model, s3://BUCKET/KEY")
    add("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/KEY.npz")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add("--precision", choices=precisions, default="fp32", help="of the converted model")
    add("--parity-measure", choices=MEASURES, default=default.measure, help="what decides (%(default)s)")
    for key, kind in RULE_TYPES.items():
        name = f"--{key.replace('_', '-')}"
        add(name, type=kind, default=getattr(default, key), metavar="N", help="of the measure (%(default)s)")
    add(
        "--output-parity",
        action="append",
        type=output_rule,
        default=[],
        metavar="JSON",
        help='another rule for one output: {"output": NAME, "measure": …, "cosine_min": …}; may be repeated',
    )
    add("--timeout-s", type=positive, default=600.0, help="limit for all tools together, in seconds")
    add(
        "--memory-mib",
        type=whole,
        default=1792,
        help="limit for each tool's own memory, in MiB (%(default)s)",
    )
    return parser


def rule_for(output: str, options: argparse.Namespace) -> Rule:
    """What an output is held to: the release's rule, with what is said of this output alone."""
    rule = {key: getattr(options, key) for key in RULE_TYPES} | {"measure": options.parity_measure}
    for given in options.output_parity:
        if given["output"] == output:
            rule |= {key: value for key, value in given.items() if key != "output"}
    return Rule(**rule)


# -------- tools, each in a process of its own with limits


@dataclass(frozen=True)
class Run:
    """One run: what was asked, the folder it works in, and when its time is up (monotonic, in seconds)."""

    options: argparse.Namespace
    folder: Path
    ends_at: float

    def tool(self, name: str, act: Callable[[], Any], share_of_time: float = 1.0) -> Any:
        """What `act` returns, run in a child process: one that hangs, eats memory or crashes ends there.

        It may use `share_of_time` of the time that is left, and `--memory-mib` of memory. Raises PodError.
        """
        limit_s = max(0.0, self.ends_at - time.monotonic()) * share_of_time
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=answer_over, args=(act, theirs, name, self.options.memory_mib))
        child.start()
        theirs.close()
        try:
            if not ours.poll(limit_s):
                raise PodError(
                    "TimedOutError",
                    f"The tool {name!r} did not finish in time",
                    expected=f"an end within {limit_s:.3g} s (all tools: {self.options.timeout_s:g} s)",
                    found="still at work, and ended",
                    remedy="raise conversion.timeout_s in the release file, or give the pod more CPU",
                )
            answer = ours.recv()
        except EOFError:
            child.join()
            raise crash_error(name, child.exitcode or 0) from None
        finally:
            child.kill()
            child.join()
            ours.close()
        if isinstance(answer, PodError):
            raise answer
        return answer


def answer_over(act: Callable[[], Any], pipe: Connection, name: str, memory_mib: int) -> None:
    """In the child: sends what `act` returns, or the PodError that says why it did not."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Private writable memory. RLIMIT_AS would count what is merely mapped: a gigabyte and more of shared
    # libraries with PyTorch, which costs nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mib * 2**20, memory_mib * 2**20))
    try:
        answer = act()
    except Exception as error:  # the parent reports it
        if is_out_of_memory(error):
            answer = memory_error(name, memory_mib)
        elif isinstance(error, PodError):
            answer = error
        else:
            traceback.print_exc()
            answer = unexpected(error)
    pipe.send(answer)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, says that memory could not be had."""
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


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


# -------- ONNX


@dataclass(frozen=True)
class Tensor:
    """One input or output. A dimension that is not fixed is -1; `shape` is None when the rank is unknown."""

    name: str
    datatype: str
    shape: tuple[int, ...] | None

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape or ())}


@dataclass(frozen=True)
class Signature:
    """What a model takes and answers."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def to_json(self) -> dict[str, Any]:
        """The value as JSON holds it."""
        roles = {"inputs": self.inputs, "outputs": self.outputs}
        return {role: [tensor.to_json() for tensor in tensors] for role, tensors in roles.items()}


def load_checked(path: Path, name: str) -> Any:
    """Reads a model and has ONNX check it in full, shapes included. Raises PodError (ModelInvalidError)."""
    import onnx

    remedy = "export the model again as one ONNX file, run onnx.checker over it, and upload it whole"
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"{name} is not a valid ONNX model",
            expected="a whole model in one file that onnx.checker accepts",
            found=f"{path.stat().st_size} bytes, {first_line(error)}",
            remedy=remedy,
        ) from error
    if not model.graph.node:
        what = f"{name} has no nodes"
        raise PodError("ModelInvalidError", what, expected="a model", found="none", remedy=remedy)
    return model


def save(model: Any, path: Path) -> None:
    """Writes a model so that equal models are equal bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def open_session(path: Path, name: str, *, optimise: bool) -> Any:
    """An ONNX Runtime session on the CPU: as the server would run it, or with every optimisation off."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"{name} cannot be loaded by ONNX Runtime {onnxruntime.__version__}",
            expected="a model whose operators and opset this ONNX Runtime knows",
            found=first_line(error),
            remedy="export it with an opset that this version supports",
        ) from error


def read_signature(session: Any) -> Signature:
    """Names, Triton datatypes and shapes. Raises PodError (ModelInvalidError) for what is no plain tensor."""

    def tensor(argument: Any, role: str) -> Tensor:
        if argument.type not in DATATYPES:
            raise PodError(
                "ModelInvalidError",
                f"The model's {role} {argument.name!r} is not a tensor that Triton can carry",
                expected=f"one of {', '.join(sorted(set(DATATYPES.values())))}",
                found=argument.type,
                remedy="export the model with plain tensors (for scikit-learn: options={'zipmap': False})",
            )
        sizes = argument.shape
        shape = (
            tuple(size if isinstance(size, int) and size >= 0 else -1 for size in sizes) if sizes else None
        )
        return Tensor(argument.name, DATATYPES[argument.type], shape)

    return Signature(
        tuple(tensor(argument, "input") for argument in session.get_inputs()),
        tuple(tensor(argument, "output") for argument in session.get_outputs()),
    )


# -------- the golden set


def read_arrays(path: Path, name: str) -> dict[str, Any]:
    """The arrays of a NumPy archive by name. Raises PodError (GoldenSetError)."""
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


def read_golden(path: Path, name: str, inputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """The golden set's array for each input, first dimension rows. Raises PodError (GoldenSetError)."""
    arrays = read_arrays(path, name)
    require_columns(name, arrays, inputs)
    for tensor in inputs:
        require_column_fits(name, arrays[tensor.name], tensor)
    rows = {tensor.name: len(arrays[tensor.name]) for tensor in inputs}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise PodError(
            "GoldenSetError",
            f"The columns of {name} do not have one and the same number of rows",
            expected="at least one row, as many in each column",
            found=", ".join(f"{column}: {count}" for column, count in rows.items()),
            remedy="write the golden set again from whole rows",
        )
    return {tensor.name: arrays[tensor.name] for tensor in inputs}


def require_columns(name: str, arrays: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> None:
    """Raises PodError (GoldenSetError) unless there is an array for each input."""
    missing = [tensor.name for tensor in inputs if tensor.name not in arrays]
    if not missing:
        return
    near = {column: difflib.get_close_matches(column, list(arrays), n=1) for column in missing}
    hints = [f"{match[0]!r} looks like {column!r}" for column, match in near.items() if match]
    raise PodError(
        "GoldenSetError",
        f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
        expected=f"one array for each input of the model: {', '.join(tensor.name for tensor in inputs)}",
        found=", ".join(sorted(arrays)) or "no array",
        remedy="name the arrays after the model's inputs" + (f" ({'; '.join(hints)})" if hints else ""),
    )


def require_column_fits(name: str, array: Any, tensor: Tensor) -> None:
    """Raises PodError (GoldenSetError) unless type and shape are the input's."""
    wanted = numpy_name(tensor)
    fits_type = array.dtype.kind in "US" if tensor.datatype == "BYTES" else array.dtype.name == wanted
    shape = tensor.shape or (-1, *array.shape[1:])
    # The first dimension is the batch: a model that fixes it is fed that many rows at a time.
    fits_shape = array.ndim == len(shape) and all(
        size in (-1, actual) for size, actual in zip(shape[1:], array.shape[1:], strict=True)
    )
    if fits_type and fits_shape:
        return
    raise PodError(
        "GoldenSetError",
        f"Column {tensor.name!r} of {name} does not fit the model's input",
        expected=f"{wanted} of shape {['rows', *shape[1:]]} (-1: any size)",
        found=f"{array.dtype.name} of shape {list(array.shape)}",
        remedy="write the golden set with the type and shape that the model takes",
    )


def numpy_name(tensor: Tensor) -> str:
    """NumPy's name for a tensor's datatype."""
    datatype = tensor.datatype
    return NUMPY_NAMES.get(datatype, datatype.lower() if "INT" in datatype else "str")


# -------- answers


def answer_all(session: Any, signature: Signature, golden: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The model's outputs over all golden rows, batch by batch. Raises PodError (ModelInvalidError)."""
    import numpy as np

    rows = len(next(iter(golden.values())))
    fixed = fixed_batch(signature)
    size = fixed or min(BATCH_ROWS, rows)
    names = [tensor.name for tensor in signature.outputs]
    parts: dict[str, list[Any]] = {output: [] for output in names}
    for start in range(0, rows, size):
        # The last batch is filled up with its last row where the model fixes the batch size.
        wanted = min(size, rows - start)
        taken = np.minimum(np.arange(start, start + (size if fixed else wanted)), rows - 1)
        feeds = {column: as_fed(array[taken]) for column, array in golden.items()}
        try:
            values = session.run(names, feeds)
        except Exception as error:
            raise rows_error(f"{name}, golden rows from {start}", error) from error
        for output, value in zip(names, values, strict=True):
            require_batch(output, value, len(taken))
            parts[output].append(value[:wanted])
    return {output: np.concatenate(arrays) for output, arrays in parts.items()}


def fixed_batch(signature: Signature) -> int:
    """How many rows a model wants at a time, 0 when it takes any number."""
    return next((tensor.shape[0] for tensor in signature.inputs if tensor.shape and tensor.shape[0] > 0), 0)


def as_fed(array: Any) -> Any:
    """Strings go to ONNX Runtime as objects; numbers as they are."""
    if array.dtype.kind == "S":
        return array.astype(str).astype(object)
    return array.astype(object) if array.dtype.kind == "U" else array


def rows_error(where: str, error: Exception) -> PodError:
    """The error for a model that fails on golden rows."""
    return PodError(
        "ModelInvalidError",
        f"The model fails on the golden set ({where})",
        expected="an answer for every golden row",
        found=first_line(error),
        remedy="correct the model, or the golden set if those rows are not valid inputs",
    )


def require_batch(output: str, value: Any, rows: int) -> None:
    """Raises PodError (ModelInvalidError) unless an output has one row for each input row."""
    if getattr(value, "ndim", 0) >= 1 and len(value) == rows:
        return
    raise PodError(
        "ModelInvalidError",
        f"Output {output!r} is not one row for each input row",
        expected=f"a first dimension of {rows}",
        found=f"shape {list(getattr(value, 'shape', ()))}",
        remedy="export the model with the batch as the first dimension of every input and output",
    )


def keep_reference(
    run: Run, golden: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Writes what the source model answers to the golden set: its own runtime is the reference.

    Raises PodError (ModelInvalidError) when it does not give the same answers again. That is asked of every
    model: two sessions draw the same random numbers, so parity alone does not show it.
    """
    import numpy as np

    answers = answer(golden)
    again = answer({column: array[:BATCH_ROWS] for column, array in golden.items()})
    before = {output: values[:BATCH_ROWS] for output, values in answers.items()}
    tolerance = Rule(abs_tolerance=run.options.abs_tolerance, rel_tolerance=run.options.rel_tolerance)
    entries = (compare_output(output, before[output], again[output], tolerance) for output in before)
    unstable = [
        f"{entry['output']} differs by up to {entry['max_abs_diff']}"
        for entry in entries
        if not entry["pass"]
    ]
    if unstable:
        raise PodError(
            "ModelInvalidError",
            "The source model answers the same rows differently from run to run",
            expected="the same answer to the same input",
            found="; ".join(unstable),
            remedy="export the model in inference mode, without random operators (dropout, sampling)",
        )
    # Text is kept as fixed-width strings: an archive of objects would be a pickle.
    kept = {
        output: values.astype(str) if values.dtype == object else values for output, values in answers.items()
    }
    np.savez(run.folder / "reference.npz", **kept)


# -------- parity


def compare_output(name: str, source: Any, converted: Any, rule: Rule) -> dict[str, Any]:
    """The entry of one output in the parity table. NaN against a number counts as endlessly far."""
    import numpy as np

    rows = len(source)
    entry: dict[str, Any] = {"output": name, "rows": rows}
    if source.shape != converted.shape:
        shapes = {"source": f"shape {list(source.shape)}", "converted": f"shape {list(converted.shape)}"}
        missing = dict.fromkeys(("max_abs_diff", "max_rel_diff", "cosine_min", "top_1_agreement"))
        verdict = {
            "within_share": 0.0,
            "mismatched_rows": rows,
            "pass": False,
            "worst": [{"row": 0, **shapes}],
        }
        return {**entry, "measure": rule.measure, **missing, **verdict}
    a, b = source.reshape(rows, -1), converted.reshape(rows, -1)
    difference, relative, outside = distances(a, b, rule)
    entry |= {
        "max_abs_diff": plain(difference.max(initial=0.0)),
        "max_rel_diff": plain(relative.max(initial=0.0)),
    }
    off, least = outside.any(axis=1), rule.within_min
    entry |= {"measure": "tolerance", "within_share": float(1 - off.mean())}
    if a.dtype.kind == "f" and a.shape[1] > 1:
        cosines, first, best = cosine_of_rows(a, b), agrees_in_best(a, b, 1), agrees_in_best(a, b, rule.top_k)
        entry |= {
            "measure": rule.measure,
            "cosine_min": plain(cosines.min()),
            "top_1_agreement": float(first.mean()),
        }
        entry |= {"top_k": rule.top_k, "top_k_agreement": float(best.mean())}
        if rule.measure == "cosine":
            off, least = ~(cosines >= rule.cosine_min), 1.0
        elif rule.measure == "top_k":
            off, least = ~best, rule.agreement_min
    elif a.dtype.kind != "f" and rule.measure == "top_k":
        entry["measure"], least = "top_k", rule.agreement_min
    badness = np.nan_to_num(difference, nan=np.inf)
    worst = worst_rows(a, b, off, badness) if off.any() else []
    verdict = {"mismatched_rows": int(off.sum()), "least_share": least, "pass": bool(1 - off.mean() >= least)}
    return {**entry, **verdict, "worst": worst}


def distances(a: Any, b: Any, rule: Rule) -> tuple[Any, Any, Any]:
    """Absolute and relative difference of each element, and whether it is too large; each (rows, elements).

    The relative one is against |source|, or the absolute tolerance where |source| is smaller. Whole numbers,
    truth values and strings must be equal.
    """
    import numpy as np

    if a.dtype.kind != "f":
        off = a.astype(str) != b.astype(str) if a.dtype.kind in "OSU" else a != b
        return off.astype(np.float64), off.astype(np.float64), off
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Equal infinities and two NaNs are alike; their difference would not be a number.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.maximum(np.abs(a), max(rule.abs_tolerance, float(np.finfo(np.float32).tiny)))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, difference / scale)
        near = difference <= rule.abs_tolerance + rule.rel_tolerance * np.abs(a)
    return difference, relative, ~(same | (near & np.isfinite(difference)))


def cosine_of_rows(a: Any, b: Any) -> Any:
    """The cosine similarity of each pair of rows; 1 for equal rows, also for those of zeros."""
    import numpy as np

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / lengths
    return np.where((a == b).all(axis=1), 1.0, np.where(lengths > 0, cosines, 0.0))


def agrees_in_best(a: Any, b: Any, k: int) -> Any:
    """Whether each of the converted model's `k` best classes is, by the source, among its `k` best; per row.

    Classes that tie in the source may stand for each other.
    """
    import numpy as np

    k = min(k, a.shape[1])
    threshold = np.sort(a, axis=1)[:, -k]
    chosen = np.argsort(-b, axis=1, kind="stable")[:, :k]
    return (np.take_along_axis(a, chosen, axis=1) >= threshold[:, None]).all(axis=1) & np.isfinite(b).all(
        axis=1
    )


def worst_rows(a: Any, b: Any, off: Any, badness: Any) -> list[dict[str, Any]]:
    """The rows most off among those that are, each with its element that is most off."""
    import numpy as np

    order = np.argsort(-np.where(off, badness.max(axis=1), -1.0), kind="stable")[:WORST_ROWS]
    worst = []
    for row in (int(row) for row in order if off[row]):
        index = int(np.argmax(badness[row]))
        entry = {
            "row": row,
            "index": index,
            "source": plain(a[row, index]),
            "converted": plain(b[row, index]),
        }
        if a.dtype.kind == "f" and a.shape[1] > 1:
            entry |= {"source_best": int(a[row].argmax()), "converted_best": int(b[row].argmax())}
        worst.append(entry)
    return worst


def plain(value: Any) -> Any:
    """A NumPy scalar as JSON can hold it: not-a-number and infinities become strings."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def require_parity(parity: list[dict[str, Any]], run: Run, payload: Mapping[str, Any]) -> None:
    """Raises PodError (ParityRefusedError), which names the worst rows, unless every output passes."""
    failed = [entry for entry in parity if not entry["pass"]]
    if not failed:
        return
    wanted = {
        "tolerance": "a difference of at most {0.abs_tolerance:g} + {0.rel_tolerance:g} × |source|",
        "cosine": "a cosine similarity of at least {0.cosine_min:g}",
        "top_k": "the same best {0.top_k}",
    }
    expected = (
        f"{entry['output']}: {wanted[entry['measure']].format(rule_for(entry['output'], run.options))} "
        f"in {100 * entry.get('least_share', 1):g} % of the rows"
        for entry in failed
    )
    raise PodError(
        "ParityRefusedError",
        "The converted model does not answer as its source does",
        expected="; ".join(expected),
        found="; ".join(map(mismatch_in_words, failed)),
        remedy="look at the worst rows in result.json; use a higher precision, or widen conversion.parity "
        "if the difference is harmless",
        payload=payload,
    )


def mismatch_in_words(entry: Mapping[str, Any]) -> str:
    """How many rows of an output are off, by how much, and the worst of them."""
    rows = (
        f"row {worst['row']}: expected {worst['source']}, found {worst['converted']}"
        for worst in entry["worst"][:3]
    )
    counts = f"{entry['mismatched_rows']} of {entry['rows']} rows off, by up to {entry['max_abs_diff']}"
    return f"{entry['output']}: {counts} ({'; '.join(rows)})"


# -------- what is said of the converted model


def with_known_ranks(signature: Signature, answers: Mapping[str, Any]) -> Signature:
    """Fills in the shape of an output whose rank the model does not state, from an answer it gave."""
    outputs = (
        tensor
        if tensor.shape is not None
        else Tensor(tensor.name, tensor.datatype, (-1, *answers[tensor.name].shape[1:]))
        for tensor in signature.outputs
    )
    return Signature(signature.inputs, tuple(outputs))


def measure_latency(session: Any, signature: Signature, golden: Mapping[str, Any]) -> dict[str, Any]:
    """How long the converted model takes for one golden row after the other, by ONNX Runtime in this pod."""
    rows, size = len(next(iter(golden.values()))), fixed_batch(signature) or 1
    feeds = [
        {column: as_fed(array[[row] * size]) for column, array in golden.items()}
        for row in range(min(rows, LATENCY_RUNS))
    ]
    taken_ms: list[float] = []
    ends_at = time.monotonic() + LATENCY_LIMIT_S
    session.run(None, feeds[0])
    while not taken_ms or (len(taken_ms) < LATENCY_RUNS and time.monotonic() < ends_at):
        started = time.perf_counter()
        session.run(None, feeds[len(taken_ms) % len(feeds)])
        taken_ms.append(1000 * (time.perf_counter() - started))
    taken_ms.sort()
    return {
        "what": "in process, ONNX Runtime on the conversion pod's CPU; to compare variants, no benchmark of a server",
        "batch_size": size,
        "runs": len(taken_ms),
        "p50_ms": round(taken_ms[len(taken_ms) // 2], 4),
        "p99_ms": round(taken_ms[min(len(taken_ms) - 1, math.ceil(0.99 * len(taken_ms)) - 1)], 4),
    }


def described(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file that was made."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "size_bytes": path.stat().st_size, "sha256": digest}


def software_list() -> dict[str, Any]:
    """The Python packages of this image as a CycloneDX 1.6 document, sorted by name."""
    components = []
    for package in importlib.metadata.distributions():
        name, version = package.metadata["Name"], package.version
        known_as = re.sub(r"[-_.]+", "-", name).lower()
        purl = f"pkg:pypi/{known_as}@{version.replace('+', '%2B')}"
        entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        expression, licence = package.metadata.get("License-Expression"), package.metadata.get("License")
        if expression:
            entry["licenses"] = [{"expression": expression}]
        elif licence and "\n" not in licence.strip():
            entry["licenses"] = [{"license": {"name": licence.strip()}}]
        components.append(entry)
    unique = {entry["purl"]: entry for entry in components}
    program = {"type": "application", "name": Path(__file__).name}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": program},
        "components": [unique[purl] for purl in sorted(unique)],
    }


# -------- the run


def attempt(store: Store, options: argparse.Namespace) -> tuple[dict[str, Any], PodError | None]:
    """The payload and the error of a run, with the list of software written whatever happened."""
    payload: dict[str, Any] = {}
    failure: PodError | None = None
    with tempfile.TemporaryDirectory(prefix="convert-") as text:
        folder = Path(text)
        try:
            payload = execute(store, options, folder)
        except PodError as error:
            failure, payload = error, error.payload
        except Exception as error:  # whatever it is, the result must tell
            traceback.print_exc()
            failure = unexpected(error)
        listed = folder / "sbom.json"
        listed.write_text(json.dumps(software_list(), indent=1, sort_keys=True))
        payload["files"] = [payload["model"]] if failure is None else []
        payload["files"].append(described(listed))
        if failure is None or failure.kind != "StoreUnavailableError":
            try:
                store.upload(listed, f"{options.destination}/sbom.json")
            except PodError as error:
                failure = failure or error
    return payload, failure


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    started = time.monotonic()
    store = Store()
    payload, failure = attempt(store, options)
    code = EXIT_CODES[failure.kind] if failure else 0
    result = {
        "outcome": "refused" if code == 4 else "error" if failure else "pass",
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


if __name__ == "__main__":
    raise SystemExit(main())
