"""The examples, as Airflow's DAG processor sees them."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from slipway.assets import live_asset, rolled_back_asset

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


def test_the_newest_event_says_which_version_users_have() -> None:
    """Of a promotion and a rollback that came together the later counts: users have the version before again."""
    read: Any = DagBag(dag_folder=str(EXAMPLES)).dags["when_digits_is_live"].get_task("read_event")
    live = SimpleNamespace(
        extra={
            "model": "digits",
            "version": 3,
            "previous_version": 2,
            "release_id": "r",
            "at": "2026-11-20T12:00:00+00:00",
        }
    )
    back = SimpleNamespace(extra={**live.extra, "release_id": "b", "at": "2026-11-20T13:00:00+00:00"})
    both = {live_asset("digits"): [live], rolled_back_asset("digits"): [back]}
    assert read.python_callable(both) == {"model": "digits", "version": 2, "release_id": "b"}
    assert read.python_callable({live_asset("digits"): [live]})["version"] == 3
