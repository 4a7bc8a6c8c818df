"""The reference: what the source model answers, kept, and the converted model compared with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway_pod.conversion.run import GOLDEN_FILE, MODEL_FILE, REFERENCE_FILE, Run
from slipway_pod.errors import PodError
from slipway_pod.models.answers import BATCH_ROWS, answer_all
from slipway_pod.models.golden import read_arrays, read_golden
from slipway_pod.models.latency import measure_latency
from slipway_pod.models.onnx_files import load_checked, open_session, read_signature
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature
from slipway_pod.parity.outputs import compare_output
from slipway_pod.parity.rules import Rule, rule_for
from slipway_pod.program.progress import say


def read_golden_of(run: Run, signature: Signature) -> GoldenRows:
    """Return the golden set that the run has fetched, by input.

    :raises PodError: of kind GoldenSetError.
    """
    return read_golden(run.folder / GOLDEN_FILE, run.options.golden, signature.inputs, run.options.row_axis)


def keep_reference(
    run: Run, golden: GoldenRows, answer: Callable[[GoldenRows], dict[str, Any]]
) -> dict[str, Any]:
    """Write and return what the source model answers to the golden set: its own runtime is the reference.

    Some rows are answered twice, by every model: two sessions draw the same random numbers, so parity alone does not
    show a random operator.

    :raises PodError: of kind ModelInvalidError, the second answers are other ones.
    """
    import numpy as np

    answers = answer(golden)
    again = answer(golden.first(BATCH_ROWS))
    rule = Rule(abs_tolerance=run.options.abs_tolerance, rel_tolerance=run.options.rel_tolerance)
    entries = (compare_output(name, answers[name][:BATCH_ROWS], again[name], rule) for name in answers)
    unstable = [
        f"{entry['output']} differs by up to {entry['max_abs_diff']}"
        for entry in entries
        if not entry["pass"]
    ]
    if unstable:
        what = "The source model answers the same rows differently from run to run"
        remedy = "export the model in inference mode, without random operators (dropout, sampling)"
        raise PodError("ModelInvalidError", what, found="; ".join(unstable), remedy=remedy)
    # Text is kept as fixed-width strings: an archive of objects would be a pickle.
    text = {name: values.astype(str) for name, values in answers.items() if values.dtype == object}
    np.savez(run.folder / REFERENCE_FILE, **answers | text)
    return answers


def keep_onnx_reference(run: Run, path: Path) -> Signature:
    """Check an ONNX source, keep what it answers with every optimisation off, and tell its signature."""
    name = run.options.source
    model = load_checked(path, name)
    session = open_session(path, name, optimise=False)
    signature = read_signature(session)
    say("check", f"{len(model.graph.node)} nodes, {path.stat().st_size} bytes, valid")
    golden = read_golden_of(run, signature)
    answers = keep_reference(
        run, golden, lambda rows: answer_all(session, signature, rows, "the source model")
    )
    return with_known_ranks(signature, answers)


def compare_with_reference(run: Run, answers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parity table of what the converted model answers.

    :raises PodError: of kind UserError.
    """
    reference = read_arrays(run.folder / REFERENCE_FILE, "the reference")
    unknown = {given["output"] for given in run.options.output_parity} - set(reference)
    if unknown:
        what = f"conversion.parity.outputs names what the model does not answer: {', '.join(sorted(unknown))}"
        remedy = "correct the names in the release file"
        raise PodError("UserError", what, expected=f"some of {', '.join(reference)}", remedy=remedy)
    return [
        compare_output(output, reference[output], answers[output], rule_for(output, run.options))
        for output in reference
    ]


def examine(run: Run) -> dict[str, Any]:
    """Compare `model.onnx` with the reference, over the golden set: signature, parity table, latency."""
    path, name = run.folder / MODEL_FILE, "the converted model"
    load_checked(path, name)
    session = open_session(path, name, optimise=True)
    signature = read_signature(session)
    golden = read_golden_of(run, signature)
    answers = answer_all(session, signature, golden, name)
    return {
        "signature": with_known_ranks(signature, answers).to_json(),
        "parity": compare_with_reference(run, answers),
        "latency": measure_latency(session, signature, golden, "on the conversion pod's CPU"),
    }


def with_known_ranks(signature: Signature, answers: Mapping[str, Any]) -> Signature:
    """Fill in the shape of an output whose rank the model does not state, from an answer it gave."""
    outputs = (
        tensor if tensor.shape else replace(tensor, shape=(-1, *answers[tensor.name].shape[1:]))
        for tensor in signature.outputs
    )
    return replace(signature, outputs=tuple(outputs))
