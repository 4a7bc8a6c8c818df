#!/usr/bin/env python3
"""Builds a TensorRT engine from an ONNX model on this pod's GPU, and compares it with the model over the golden set.

Reads the model, the golden set and, where they are, calibration data and the timing cache from S3; builds with
`polygraphy convert`; answers the golden set with ONNX Runtime (the source) and with the engine. Writes `model.plan`,
`sbom.json` and, last, `result.json` under the destination; the result says on which GPU and with which TensorRT the
engine was built, since it runs on no other. Every tool runs in a separate process, which ends when it takes too long
or too much memory.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the engine answers otherwise than the source; 75 try again
later (S3 does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway_pod.conversion import calibration
from slipway_pod.conversion.frame import converter_parser, hand_over, run_converter
from slipway_pod.conversion.gpu import Gpu, read_gpu, timing_cache_url
from slipway_pod.conversion.onnx_source import fetch_onnx
from slipway_pod.conversion.precision import PRECISIONS
from slipway_pod.conversion.profiles import Profile, choose_profiles, profile
from slipway_pod.conversion.reference import (
    UNOPTIMISED,
    compare_with_reference,
    keep_onnx_reference,
    read_golden_of,
)
from slipway_pod.conversion.run import CALIBRATION_FILE, GOLDEN_FILE, ConversionRun
from slipway_pod.errors import PodError, first_line
from slipway_pod.models.answers import answer_all, rows_of_a_request
from slipway_pod.models.golden import read_golden
from slipway_pod.models.latency import measure_latency
from slipway_pod.models.tensors import Signature
from slipway_pod.program.arguments import s3_url, whole
from slipway_pod.program.progress import say
from slipway_pod.program.subprograms import run_builder

PACKAGES = ("numpy", "onnx", "onnxruntime", "polygraphy", "tensorrt")
SOURCE_FILE = "source.onnx"
ENGINE_FILE = "model.plan"
TIMINGS_FILE = "timing.cache"
SCALES_FILE = "calibration.cache"
# Datatypes of ONNX models that TensorRT does not have.
NOT_CARRIED = ("BYTES", "FP64")
COMPATIBILITY = ("none", "same_compute_capability", "ampere_plus")
TACTICS = ("cublas", "cublas_lt", "cudnn", "edge_mask_convolutions", "jit_convolutions")
# A CUDA context, TensorRT's kernels and the weights, several times over.
MEMORY_MIB = 12288


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = converter_parser(__doc__, PRECISIONS)
    parser.set_defaults(memory_mib=MEMORY_MIB)
    add = parser.add_argument
    text = "of the profile that is made if none is given (%(default)s)"
    add("--max-batch-size", type=whole, default=64, help=text)
    add("--opt-batch-size", type=whole, help="the batch that the profile is tuned for (the largest)")
    text = 'an optimisation profile: {"INPUT": {"min": [1, 64], "opt": [8, 64], "max": [16, 64]}}; may be repeated'
    add("--profile", action="append", type=profile, default=[], metavar="JSON", help=text)
    text = "int8: rows of training data, s3://BUCKET/KEY.npz, for a new cache"
    add("--calibration", type=s3_url, help=text)
    add(
        "--calibration-cache",
        type=s3_url,
        help="int8: the store of scales, by the model's SHA-256, s3://BUCKET/PREFIX",
    )
    add("--timing-cache", type=s3_url, help="read before and written after the build, s3://BUCKET/PREFIX")
    add("--workspace-mib", type=whole, help="GPU memory for the builder's and the engine's scratch space")
    add("--builder-optimization-level", type=int, choices=range(6), default=3, help="(%(default)s)")
    add("--tf32", action="store_true", help="let fp32 layers use TF32")
    add("--sparse-weights", action="store_true", help="use structured sparsity if the weights have it")
    add("--refittable", action="store_true", help="let weights be exchanged in the finished engine")
    text = "let later TensorRT of this major version load the engine"
    add("--version-compatible", action="store_true", help=text)
    add("--hardware-compatibility", choices=COMPATIBILITY, default="none", help="(%(default)s)")
    add("--precision-constraints", choices=["none", "prefer", "obey"], default="none", help="(%(default)s)")
    add("--tactic-source", action="append", choices=TACTICS, help="only these; may be repeated")
    add("--max-aux-streams", type=int, help="streams in addition to the main one")
    options = parser.parse_args(argv)
    check_arguments(parser, options)
    return options


def check_arguments(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with exit code 2 when arguments contradict each other."""
    if options.precision == "int8" and not (options.calibration or options.calibration_cache):
        parser.error(
            "--precision int8 needs --calibration or --calibration-cache: without scales the engine is noise"
        )
    if options.precision != "int8" and (options.calibration or options.calibration_cache):
        parser.error("--calibration and --calibration-cache are only for --precision int8")
    if options.opt_batch_size and options.opt_batch_size > options.max_batch_size:
        parser.error("--opt-batch-size is above --max-batch-size")


# ---------------------------------------------------------------- the machine


def describe_machine(run: ConversionRun, gpu: Gpu) -> dict[str, Any]:
    """Return the GPU and the driver, the versions of TensorRT and CUDA, and how far the engine can travel."""
    return {
        "gpu": gpu.name,
        "compute_capability": gpu.compute_capability,
        "driver": gpu.driver,
        **run.tool("versions", library_versions),
        "hardware_compatibility": run.options.hardware_compatibility,
        "version_compatible": run.options.version_compatible,
    }


def library_versions() -> dict[str, Any]:
    """Return TensorRT's and CUDA's versions, as the libraries report them."""
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
    """Return the version of CUDA's runtime library, if it can be found."""
    for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12"):
        with contextlib.suppress(OSError, AttributeError):
            number = ctypes.c_int()
            if ctypes.CDLL(name).cudaRuntimeGetVersion(ctypes.byref(number)) == 0:
                return f"{number.value // 1000}.{number.value % 1000 // 10}"
    return None


# ---------------------------------------------------------------- the build


def build_command(
    options: argparse.Namespace,
    folder: Path,
    profiles: Sequence[Profile],
    *,
    has_timings: bool = False,
    calibrates: bool = False,
) -> list[str]:
    """Return the builder's command line (polygraphy 0.49 and later)."""
    timings = str(folder / TIMINGS_FILE)
    command = ["polygraphy", "convert", str(folder / SOURCE_FILE), "--convert-to", "trt"]
    command += ["--output", str(folder / ENGINE_FILE)]
    command += ["--fp16"] if options.precision in ("fp16", "int8") else []
    if options.precision == "int8":
        command += ["--int8", "--calibration-cache", str(folder / SCALES_FILE)]
        if calibrates:
            loader = f"{calibration.__file__}:{calibration.calibration_batches.__name__}"
            command += ["--data-loader-script", loader]
    for one in profiles:
        for place, shapes in one.items():
            command.append(f"--trt-{place}-shapes")
            command += [f"{name}:{json.dumps(shape)}" for name, shape in shapes.items()]
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
    # It takes any number of values, so it comes last.
    command += ["--tactic-sources", *options.tactic_source] if options.tactic_source else []
    return command


def prepare_calibration(
    run: ConversionRun, signature: Signature, profiles: Sequence[Profile]
) -> dict[str, str]:
    """Write the rows that the builder will read, for the model's inputs alone; return its environment."""
    import numpy as np

    rows = read_golden(
        run.folder / CALIBRATION_FILE,
        run.options.calibration,
        signature.inputs,
        run.options.row_axis,
        run.options.batch_tensors,
    )
    usual = profiles[-1]["opt"].values() if profiles else ()
    size = max((shape[0] for shape in usual), default=rows_of_a_request(signature, rows) or 1)
    available = rows.rows
    if available < size:
        raise PodError(
            "GoldenSetError",
            "The calibration set has not one whole batch",
            expected=f"at least {size} rows, the usual batch of the last profile",
            found=f"{available} rows",
            remedy="bring more rows, or a smaller conversion.opt_batch_size",
        )
    path = run.folder / "calibration-rows.npz"
    np.savez(path, **rows)
    return {calibration.ROWS_FILE: str(path), calibration.BATCH_ROWS: str(size)}


def scales_url(run: ConversionRun) -> str | None:
    """Return where the scales of this model lie: with another model's scales the engine answers noise."""
    options = run.options
    if options.calibration_cache is None:
        return None
    return f"{options.calibration_cache}/{run.store.inputs[options.source]['sha256']}.cache"


def build(
    run: ConversionRun, gpu: Gpu, tensorrt: str, signature: Signature, profiles: Sequence[Profile]
) -> dict[str, Any]:
    """Build the engine; the caches are fetched before and put back after, for the next build."""
    options, store = run.options, run.store
    timings = timing_cache_url(options.timing_cache, gpu, tensorrt)
    has_timings = timings is not None and store.fetch_if_there(timings, run.folder / TIMINGS_FILE)
    scales = scales_url(run)
    has_scales = scales is not None and store.fetch_if_there(scales, run.folder / SCALES_FILE)
    calibrates = options.precision == "int8" and not has_scales
    environment: dict[str, str] = {}
    if calibrates:
        if options.calibration is None:
            raise PodError(
                "InputMissingError",
                f"There is no {scales}",
                expected="a calibration cache, or --calibration to make one of",
                found="neither",
                remedy="name calibration data in the release file (conversion.calibration)",
            )
        run.fetch(options.calibration, CALIBRATION_FILE)
        environment = prepare_calibration(run, signature, profiles)
    command = build_command(options, run.folder, profiles, has_timings=has_timings, calibrates=calibrates)
    run_builder(command, run.limits, environment)
    for url, name in ((timings, TIMINGS_FILE), (scales if calibrates else None, SCALES_FILE)):
        if url is not None and (run.folder / name).exists():
            store.upload(run.folder / name, url)
            say("store", url)
    shown = [part.replace(str(run.folder), ".") for part in command]
    return {"build": {"command": shown, "timing_cache": "used" if has_timings else "new"}}


# ---------------------------------------------------------------- the engine's answers


class Engine:
    """An engine that answers as an ONNX Runtime session does, in batches that its first profile allows."""

    def __init__(self, runner: Any, profiles: Sequence[Profile]) -> None:
        self._runner = runner
        self._least = max((shape[0] for shape in profiles[0]["min"].values()), default=1) if profiles else 1
        self._most = min((shape[0] for shape in profiles[0]["max"].values()), default=1) if profiles else None

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the wanted outputs, or all, one row for each row that is fed."""
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
    """Open the engine in this process, on the GPU.

    :raises PodError: it cannot be loaded.
    """
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


def keep_source_answers(run: ConversionRun) -> tuple[Signature, dict[str, Any]]:
    """Check the source, keep what it answers without any optimisation, and return its signature and their effect."""
    signature, effect = keep_onnx_reference(run, run.folder / SOURCE_FILE, optimised=False)
    strange = [t for t in (*signature.inputs, *signature.outputs) if t.datatype in NOT_CARRIED]
    if strange:
        raise PodError(
            "ModelInvalidError",
            f"TensorRT cannot carry {strange[0].name!r}",
            expected="tensors of FP32, FP16, BF16, INT64, INT32, INT8, UINT8 or BOOL",
            found=strange[0].datatype,
            remedy="cast it in the model, or keep the model as ONNX (conversion.target: onnx)",
        )
    return signature, effect


def examine_engine(run: ConversionRun, signature: Signature, profiles: Sequence[Profile]) -> dict[str, Any]:
    """Compare the engine with the reference, over the golden set: parity table and latency."""
    golden = read_golden_of(run, signature)
    with open_engine(run.folder / ENGINE_FILE, profiles) as engine:
        answers = answer_all(engine, signature, golden, "the engine")
        latency = measure_latency(engine, signature, golden, "TensorRT on the conversion pod's GPU")
    return {"parity": compare_with_reference(run, answers, UNOPTIMISED), "latency": latency}


# ---------------------------------------------------------------- the run


def convert(run: ConversionRun, result: dict[str, Any]) -> None:
    """Download, build, compare, hand the engine over; fill in the result on the way."""
    gpu = read_gpu()
    machine = result["engine"] = describe_machine(run, gpu)
    about = f"{gpu.name}, compute capability {gpu.compute_capability}, TensorRT {machine['tensorrt']}"
    say("machine", about)
    fetch_onnx(run, SOURCE_FILE)
    run.fetch(run.options.golden, GOLDEN_FILE)
    signature, result["optimisation"] = run.tool("check", lambda: keep_source_answers(run))
    result["signature"] = signature.to_json()
    profiles = result["profiles"] = choose_profiles(run.options, signature)
    result.update(build(run, gpu, machine["tensorrt"], signature, profiles))
    result.update(run.tool("compare", lambda: examine_engine(run, signature, profiles)))
    hand_over(run, result, run.folder / ENGINE_FILE)


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return run_converter(arguments(argv), convert, PACKAGES)


if __name__ == "__main__":
    raise SystemExit(main())
