"""The text of a first release file: what must be decided, with a comment for each decision."""

from __future__ import annotations

import json

from include.model_release.tensors import ModelSignature
from slipway.cli.beginning.golden import label_name
from slipway.cli.beginning.signature import Answers

_BATCH = 32


def release_text(model: str, model_file: str, signature: ModelSignature, answers: Answers) -> str:
    """Return the file's text.

    :param model_file: what training will call the model's file below incoming/MODEL/VERSION/.
    """
    return "\n".join(
        [
            f"# How the model {model} is released. Begun by `slipway init`; every key and default:",
            "#   python -m include.model_release.spec --schema",
            "# Check it after each change: slipway lint FILE",
            "#",
            "# The model's own signature (-1: a size that may vary; the first one are the rows):",
            *(f"#   takes    {_safe(tensor.name)}: {tensor}" for tensor in signature.inputs),
            *(f"#   answers  {_safe(tensor.name)}: {tensor}" for tensor in signature.outputs),
            "",
            f"model: {model}",
            'description: "" # a line that a colleague understands',
            "",
            "# What training leaves under incoming/MODEL/VERSION/ in the bucket, before ready.json.",
            "source:",
            "  format: onnx",
            f"  model_file: {json.dumps(model_file)}",
            "  golden_file: golden.npz # held-out rows and their right answers; never seen in training",
            "",
            *_serving(signature),
            "",
            *_validation(signature, answers),
            "",
            "# Measured on staging, beside the stable version. Write what your users need, not what you hope for.",
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
            "    minimum_candidate_requests: 200 # fewer tell nothing",
            "  on_inconclusive: rollback # too little traffic; or hold (a person decides), golden_replay",
            "  # approval: {before_canary: true, by_other: true} # a person must agree, another than who started it",
            "",
        ]
    )


def _serving(signature: ModelSignature) -> list[str]:
    lines = ["# Becomes Triton's config.pbtxt.", "serving:"]
    if takes_batches(signature):
        lines += [
            f"  max_batch_size: {_BATCH} # rows in one request, and in a batch that Triton makes of several",
            "  dynamic_batching:",
            "    max_queue_delay_us: 1000 # how long a request may wait for others; 1 ms",
        ]
    else:
        lines += [
            "  max_batch_size: 0 # the model's first size is fixed: it takes no batches",
            "  dynamic_batching: null",
        ]
    return [*lines, "  instances:", "    - {kind: cpu, count: 1} # or kind: gpu"]


def takes_batches(signature: ModelSignature) -> bool:
    """Tell whether the first size of every input and output may vary: these are the rows."""
    tensors = (*signature.inputs, *signature.outputs)
    return all(tensor.shape and tensor.shape[0] == -1 for tensor in tensors)


def _validation(signature: ModelSignature, answers: Answers) -> list[str]:
    lines = [
        "# What the golden set must show on staging.",
        "validation:",
        f"  kind: {answers.kind} # or classification, regression, text",
        f"  output: {json.dumps(answers.output)} # the output that the labels are held against",
        f"  label: {label_name(signature)} # the array of the golden set with the right answers",
    ]
    if answers.kind == "classification":
        lines.append("  accuracy_min: 0.9 # share of rows answered rightly")
    elif answers.kind == "regression":
        lines.append("  mae_max: 1.0 # mean absolute error, in the label's unit: write your own")
    else:
        lines.append("  score_min: 0.9 # mean score of the rows")
    return [*lines, "  agreement_min: 0.9 # share of rows answered as the stable version does"]


def _safe(name: str) -> str:
    """Return a name that stays on its line of a comment."""
    return json.dumps(name)[1:-1]
