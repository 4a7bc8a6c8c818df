"""Lower precision: fp16, and int8 by ONNX Runtime's quantisers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slipway_pod.conversion.run import CALIBRATION_FILE, ConversionRun
from slipway_pod.models.answers import BATCH_ROWS, as_fed, rows_of_a_request
from slipway_pod.models.golden import read_golden
from slipway_pod.models.onnx_files import keep_opset_imports, open_session, read_signature, save, used_domains
from slipway_pod.program.arguments import s3_url

PRECISIONS = ("fp32", "fp16", "int8")


def precision_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how a lower precision is reached."""
    add = parser.add_argument
    methods = ["dynamic", "static"]
    add("--quantization", choices=methods, default="dynamic", help="how int8 is reached (%(default)s)")
    add("--calibration", type=s3_url, help="static int8: rows of training data, s3://BUCKET/KEY.npz")
    methods = ["minmax", "entropy", "percentile"]
    add("--calibration-method", choices=methods, default="minmax", help="static int8 (%(default)s)")
    add("--per-channel", action="store_true", help="int8: a scale for each channel of a weight")
    text = "a node to leave unchanged; can be repeated"
    add("--keep-fp32", action="append", default=[], metavar="NODE", help=text)


def check_precision(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program with exit code 2 when the arguments on precision contradict each other."""
    static = options.precision == "int8" and options.quantization == "static"
    if static and options.calibration is None:
        parser.error("--quantization static needs --calibration: scales are taken from real rows")
    if options.calibration is not None and not static:
        parser.error("--calibration is only for --precision int8 --quantization static")


def fetch_calibration(run: ConversionRun) -> None:
    """Download the calibration rows, if there are any."""
    if run.options.calibration is not None:
        run.fetch(run.options.calibration, CALIBRATION_FILE)


def to_fp16(run: ConversionRun, source: Path, target: Path) -> None:
    """Write the model with weights and sums in half precision.

    Inputs and outputs keep their types, so that clients need not change.
    """
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    kept = run.options.keep_fp32
    model = convert_float_to_float16(onnx.load(source), keep_io_types=True, node_block_list=kept)
    # The converter puts the casts of the inputs after the nodes that read them.
    OnnxModel(model).topological_sort(is_deterministic=True)
    save(model, target)


def to_int8(run: ConversionRun, source: Path, target: Path) -> None:
    """Write the model with weights and activations in eight bits.

    The scales are those of each batch (dynamic) or of calibration rows (static).
    """
    import onnx
    from onnxruntime import quantization as quant

    options = run.options
    shaped, made = run.folder / "shaped.onnx", run.folder / "quantised.onnx"
    quant.quant_pre_process(source, shaped, skip_optimization=True, skip_symbolic_shape=True)
    common: dict[str, Any] = {"per_channel": options.per_channel, "nodes_to_exclude": options.keep_fp32}
    if options.quantization == "dynamic":
        quant.quantize_dynamic(shaped, made, weight_type=quant.QuantType.QInt8, **common)
    else:
        methods = quant.CalibrationMethod
        quant.quantize_static(
            shaped,
            made,
            calibration_rows(run, source),
            quant_format=quant.QuantFormat.QDQ,
            calibrate_method={
                "minmax": methods.MinMax,
                "entropy": methods.Entropy,
                "percentile": methods.Percentile,
            }[options.calibration_method],
            **common,
        )
    model = onnx.load(made)
    keep_opset_imports(model, used_domains(model.graph) | {""})
    if not any("Integer" in node.op_type or "Quantize" in node.op_type for node in model.graph.node):
        raise ValueError("it left every node as it was: the model has none that this quantiser knows")
    save(model, target)


def calibration_rows(run: ConversionRun, source: Path) -> Any:
    """Return the calibration set as ONNX Runtime reads it, batch by batch.

    :raises PodError: of kind GoldenSetError.
    """
    from onnxruntime.quantization import CalibrationDataReader

    signature = read_signature(open_session(source, "the model before int8", optimise=False))
    arrays = read_golden(
        run.folder / CALIBRATION_FILE,
        run.options.calibration,
        signature.inputs,
        run.options.row_axis,
        run.options.batch_tensors,
    )
    rows, fixed = arrays.rows, rows_of_a_request(signature, arrays)
    size = fixed or BATCH_ROWS
    # A model that fixes its batch takes whole batches only.
    last = rows - rows % size if fixed else rows
    batches = (
        {name: as_fed(array) for name, array in arrays.take(range(start, min(start + size, last))).items()}
        for start in range(0, last, size)
    )

    class Rows(CalibrationDataReader):  # type: ignore[misc]  # a library without types
        def get_next(self) -> dict[str, Any] | None:
            return next(batches, None)

    return Rows()
