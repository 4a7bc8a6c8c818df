"""The examples, as Airflow's DAG processor sees them."""

from __future__ import annotations

import warnings
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "dags"


def test_every_example_imports_without_a_warning() -> None:
    """Each file gives a DAG, with every warning an error, that can be serialised, and says what it is for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bag = DagBag(dag_folder=str(EXAMPLES))
    assert bag.import_errors == {}
    assert sorted(bag.dags) == sorted(file.stem for file in EXAMPLES.glob("*.py"))
    for dag in bag.dags.values():
        assert dag.doc_md
        assert DagSerialization.to_dict(dag)
