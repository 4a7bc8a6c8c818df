"""Triton's model-control API as operators, of use in any DAG: nothing here knows of a release.

Each is safe to run again, also after it was killed; `docs/operators.md` says of each what holds then.
"""

from slipway.operators.triton.drain import TritonDrainModelOperator
from slipway.operators.triton.fleet import TritonFleetLoadOperator
from slipway.operators.triton.infer import TritonInferOperator
from slipway.operators.triton.load import TritonLoadModelOperator
from slipway.operators.triton.ready import TritonWaitReadyOperator
from slipway.operators.triton.unload import TritonUnloadModelOperator
from slipway.operators.triton.warm_up import TritonWarmUpOperator

__all__ = [
    "TritonDrainModelOperator",
    "TritonFleetLoadOperator",
    "TritonInferOperator",
    "TritonLoadModelOperator",
    "TritonUnloadModelOperator",
    "TritonWaitReadyOperator",
    "TritonWarmUpOperator",
]
