"""Triton's model-control API as operators, of use in any DAG: nothing here knows of a release.

Each is safe to run again, also after it was killed; `docs/operators.md` says of each what holds then.
"""

from airflow_provider_triton.operators.drain import TritonDrainModelOperator
from airflow_provider_triton.operators.fleet import TritonFleetLoadOperator
from airflow_provider_triton.operators.infer import TritonInferOperator
from airflow_provider_triton.operators.load import TritonLoadModelOperator
from airflow_provider_triton.operators.ready import TritonWaitReadyOperator
from airflow_provider_triton.operators.unload import TritonUnloadModelOperator
from airflow_provider_triton.operators.warm_up import TritonWarmUpOperator

__all__ = [
    "TritonDrainModelOperator",
    "TritonFleetLoadOperator",
    "TritonInferOperator",
    "TritonLoadModelOperator",
    "TritonUnloadModelOperator",
    "TritonWaitReadyOperator",
    "TritonWarmUpOperator",
]
