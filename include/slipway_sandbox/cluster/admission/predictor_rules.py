"""What KServe's admission webhook asks of every predictor, stable's and a canary's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_sandbox.cluster.admission.schemas import MODEL_FRAMEWORKS

# The ways to say what a predictor runs, as Go's struct names them.
_IMPLEMENTATIONS = (
    "Name, SKLearn, XGBoost, Tensorflow, PyTorch, Triton, ONNX, HuggingFace, PMML, LightGBM, Paddle, Model, "
    "StorageUris, StorageContainerName, WorkerSpec, PodSpec"
)


def implementation_denial(predictor: Mapping[str, Any]) -> str | None:
    """Return why a predictor is refused that runs nothing, or more than one thing."""
    # A predictor with both a model and containers is a model with sidecars.
    given = [name for name in (*MODEL_FRAMEWORKS, "model") if predictor.get(name) is not None]
    if len(given) == 1 or (not given and predictor.get("containers")):
        return None
    return f"exactly one of [{_IMPLEMENTATIONS}] must be specified in PredictorSpec"
