"""The text of a first release file: what must be decided, with a comment for each decision."""

from __future__ import annotations

import json

from slipway.cli.beginning.golden import label_name, row_axes, rules_of
from slipway.cli.beginning.proposal import Proposal
from slipway.cli.beginning.trial import Trial
from slipway.cli.model_files.onnx_file import OnnxFile
from slipway_core.spec.validation import Validation

_BATCH = 32


def release_text(
    model: str, model_file: str, file: OnnxFile, trial: Trial, chosen: Proposal, *, labelled: bool
) -> str:
    """Return the file's text.

    :param model_file: what training will call the model's file below incoming/MODEL/VERSION/.
    :param labelled: the golden set has labels.
    """
    signature = file.signature
    return "\n".join(
        [
            f"# How the model {model} is released. Begun by `slipway init`; every key and default:",
            "#   python -m slipway_core.spec --schema",
            "# Check it after each change: slipway lint FILE",
            "#",
            "# The model's own signature (-1: a size that may vary):",
            *(f"#   takes    {_safe(tensor.name)}: {tensor}" for tensor in signature.inputs),
            *(f"#   answers  {_safe(tensor.name)}: {tensor}" for tensor in signature.outputs),
            "",
            f"model: {model}",
            'description: "" # one line that a colleague understands',
            "",
            "# What training uploads to incoming/MODEL/VERSION/ in the bucket, before ready.json.",
            "source:",
            "  format: onnx",
            f"  model_file: {json.dumps(model_file)}",
            "  golden_file: golden.npz # held-out rows and their right answers; never seen in training",
            "",
            *_serving(file, trial),
            "",
            *_golden(file, trial, chosen),
            *_validation(model, file, trial, chosen, labelled=labelled),
            "",
            "# Measured on staging, next to the stable version. Write what your users need, not what you hope for.",
            "benchmark:",
            "  generator: perf_analyzer",
            "  slo:",
            "    p99_ms: 500 # 99 of 100 requests are answered within this",
            "    error_percent_max: 0",
            "  max_regression_percent: 25 # against the stable version, in the same run",
            "",
            "# The canary: percent of the users' requests, and for how long at least. 99, not 100, keeps the stable",
            "# version warm until the promotion. The first version of a model has no canary: there is nothing to",
            "# compare it with.",
            "rollout:",
            "  namespace: models",
            "  steps:",
            "    - {weight: 5, bake_s: 120}",
            "    - {weight: 25, bake_s: 180}",
            "    - {weight: 99, bake_s: 60}",
            "  analysis:",
            "    error_margin_percent: 0.5 # a difference up to this is good enough",
            "    latency_margin_percent: 25",
            "    minimum_candidate_requests: 200 # fewer show nothing",
            "  on_inconclusive: rollback # too little traffic; or hold (a person decides), golden_replay",
            "  # approval: {before_canary: true, by_other: true} # another person than the starter must approve",
            "",
        ]
    )


def _serving(file: OnnxFile, trial: Trial) -> list[str]:
    lines = ["# Becomes Triton's config.pbtxt.", "serving:"]
    if takes_batches(file, trial):
        lines += [
            f"  max_batch_size: {_BATCH} # rows in one request, and in a batch that Triton makes of several",
            "  dynamic_batching:",
            "    max_queue_delay_us: 1000 # how long a request may wait for others; 1 ms",
        ]
    else:
        lines += [
            "  max_batch_size: 0 # not every input and output has its rows first, in any number: no batches",
            "  dynamic_batching: null",
        ]
    return [*lines, "  instances:", "    - {kind: cpu, count: 1} # or kind: gpu"]


def takes_batches(file: OnnxFile, trial: Trial) -> bool:
    """Tell whether the first size of every input and output may vary, and counts the rows as far as it was tried."""
    tensors = (*file.signature.inputs, *file.signature.outputs)
    declared = all(tensor.shape and tensor.shape[0] == -1 for tensor in tensors)
    axes = (*trial.rows.axes.values(), *(one.axis for one in trial.seen.values()))
    return declared and not trial.one_by_one and all(axis == 0 for axis in axes)


def _golden(file: OnnxFile, trial: Trial, chosen: Proposal) -> list[str]:
    axes = row_axes(file, trial, chosen)
    if not axes:
        return []
    return [
        "# Which axis of a tensor counts the rows; `request`: none does, each row is a separate request.",
        "golden:",
        "  row_axis:",
        *(f"    {json.dumps(name)}: {axis}" for name, axis in axes.items()),
        "",
    ]


def scorer_name(model: str) -> str:
    """Return the name of the scorer's file, beside the release file."""
    return f"{model}-scorer.py"


def _validation(model: str, file: OnnxFile, trial: Trial, chosen: Proposal, *, labelled: bool) -> list[str]:
    lines = [
        "# What the golden set must show on staging.",
        f"# {chosen.kind.capitalize()}, {chosen.sureness}: {_safe(chosen.why)}.",
        "validation:",
        f"  kind: {chosen.kind} # one of {', '.join(Validation.registry.names())}",
        f"  output: {json.dumps(chosen.output)} # the output that is checked",
        *(f"  {key}: {json.dumps(value)}" for key, value in chosen.more.items()),
    ]
    if labelled:
        lines.append(
            f"  label: {label_name(file.signature)} # the array of the golden set with the right answers"
        )
    elif rules_of(chosen).optional:
        lines.append(
            "  # label: label # the right answers, once the golden set has them: the first version needs them"
        )
    if trial.one_by_one:
        lines.append("  batch_size: 1 # an answer does not have the rows of its request: each is asked alone")
    lines += [f"  {line}" for line in Validation.registry.get(chosen.kind).first_limits]
    if chosen.kind == "custom":
        lines += [
            f"  scorer: {scorer_name(model)} # in this folder; the limits for what it returns for each row",
            "  figures:",
            "    correct: {min: 0.9}",
        ]
    return [*lines, "  agreement_min: 0.9 # share of rows with the same answer as the stable version"]


def _safe(name: str) -> str:
    """Return a name that stays on its line of a comment."""
    return json.dumps(name)[1:-1]
