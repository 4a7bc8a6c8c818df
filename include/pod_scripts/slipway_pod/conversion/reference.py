"""The reference: what the source model answers, kept, and the converted model compared with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway_pod.conversion.optimisation import measured_effect
from slipway_pod.conversion.run import GOLDEN_FILE, MODEL_FILE, REFERENCE_FILE, ConversionRun
from slipway_pod.errors import PodError
from slipway_pod.models.answers import BATCH_ROWS, answer_all
from slipway_pod.models.golden import read_arrays, read_golden
from slipway_pod.models.latency import measure_latency
from slipway_pod.models.onnx_files import load_checked, open_session, read_overridable, read_signature
from slipway_pod.models.rows import GoldenRows
from slipway_pod.models.tensors import Signature
from slipway_pod.parity.outputs import compare_output
from slipway_pod.parity.rules import rule_for
from slipway_pod.program.progress import say
from slipway_rules.parity import Rule

SOURCE = "the source model"
# How source and conversion were run when they were compared.
OPTIMISED, UNOPTIMISED = "optimised", "unoptimised"


def read_golden_of(run: ConversionRun, signature: Signature) -> GoldenRows:
    """Return the golden set that the run has fetched, by input.

    :raises PodError: of kind GoldenSetError.
    """
    options = run.options
    path = run.folder / GOLDEN_FILE
    return read_golden(path, options.golden, signature.inputs, options.row_axis, options.batch_tensors)


def keep_reference(
    run: ConversionRun, golden: GoldenRows, answer: Callable[[GoldenRows], dict[str, Any]]
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


def keep_onnx_reference(
    run: ConversionRun, path: Path, *, optimised: bool = True, not_carried: Collection[str] = ()
) -> tuple[Signature, dict[str, Any]]:
    """Check an ONNX source and keep what it answers; return its signature and the effect of optimisations on it.

    :param optimised: keep what it answers with every optimisation on, as a server runs it, or with all of them off.
    :param not_carried: datatypes that the server has not between a client and the model.
    """
    name = run.options.source
    model = load_checked(path, name)
    signature = read_signature(open_session(path, name, optimise=False))
    say("check", f"{len(model.graph.node)} nodes, {path.stat().st_size} bytes, valid")
    del model
    require_carried(name, signature, not_carried)
    golden = read_golden_of(run, signature)
    # One session for all its answers: in a new one a random operator begins again, and repeats itself.
    session = open_session(path, name, optimise=optimised)
    answers = keep_reference(run, golden, lambda rows: answer_all(session, signature, rows, SOURCE))

    def otherwise() -> dict[str, Any]:
        return answer_all(open_session(path, name, optimise=not optimised), signature, golden, SOURCE)

    effect = measured_effect(run, SOURCE, answers, otherwise, optimised=optimised)
    return with_known_ranks(signature, answers), effect


def require_carried(name: str, signature: Signature, not_carried: Collection[str]) -> None:
    """Raise PodError (ModelInvalidError) for an input or output of a type that the server does not carry."""
    for tensor in (*signature.inputs, *signature.outputs):
        if tensor.datatype in not_carried:
            raise PodError(
                "ModelInvalidError",
                f"Triton's ONNX Runtime backend cannot carry {tensor.name!r} of {name}",
                expected="FP32 or FP16 between clients and the model",
                found=tensor.datatype,
                remedy=f"export the model with a Cast at {tensor.name!r}, so that only its inside computes in "
                f"{tensor.datatype}",
            )


def compare_with_reference(
    run: ConversionRun, answers: Mapping[str, Any], compared: str = OPTIMISED
) -> list[dict[str, Any]]:
    """Return the parity table of what the converted model answers.

    :param compared: how the two were run, for the table.
    :raises PodError: of kind UserError.
    """
    reference = read_arrays(run.folder / REFERENCE_FILE, "the reference")
    unknown = {given["output"] for given in run.options.output_parity} - set(reference)
    if unknown:
        what = f"conversion.parity.outputs names what the model does not answer: {', '.join(sorted(unknown))}"
        remedy = "correct the names in the release file"
        raise PodError("UserError", what, expected=f"some of {', '.join(reference)}", remedy=remedy)
    return [
        {
            **compare_output(output, reference[output], answers[output], rule_for(output, run.options)),
            "compared": compared,
        }
        for output in reference
    ]


def examine(run: ConversionRun, *, by_library: bool = False) -> dict[str, Any]:
    """Compare `model.onnx` with the reference, over the golden set: signature, parity table, latency.

    :param by_library: the reference is what the source's own library answers, which has no such optimisations. Then a
        model in full precision is like its source if it answers alike with its own switched off.
    """
    path, name = run.folder / MODEL_FILE, "the converted model"
    load_checked(path, name)
    session = open_session(path, name, optimise=True)
    signature = read_signature(session)
    golden = read_golden_of(run, signature)
    answers = answer_all(session, signature, golden, name)
    found: dict[str, Any] = {
        "signature": with_known_ranks(signature, answers).to_json(),
        "overridable": [tensor.to_json() for tensor in read_overridable(session)],
        "parity": compare_with_reference(run, answers),
        "latency": measure_latency(session, signature, golden, "on the conversion pod's CPU"),
    }
    if by_library:
        del session
        off: dict[str, Any] = {}

        def answered() -> dict[str, Any]:
            off.update(answer_all(open_session(path, name, optimise=False), signature, golden, name))
            return off

        found["optimisation"] = measured_effect(run, name, answers, answered, optimised=True)
        if off and run.options.precision == "fp32" and not all_pass(found["parity"]):
            like_with_like = compare_with_reference(run, off, UNOPTIMISED)
            found["parity"] = like_with_like if all_pass(like_with_like) else found["parity"]
    return found


def all_pass(parity: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether every output of a parity table passes."""
    return all(entry["pass"] for entry in parity)


def with_known_ranks(signature: Signature, answers: Mapping[str, Any]) -> Signature:
    """Fill in the shape of an output whose rank the model does not state, from an answer it gave."""
    outputs = (
        tensor if tensor.shape else replace(tensor, shape=(-1, *answers[tensor.name].shape[1:]))
        for tensor in signature.outputs
    )
    return replace(signature, outputs=tuple(outputs))
