"""What a person asks for by a run of its own is not done: the run's note says why, where the person looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slipway.failures import PlainFailure, airflow_failures
from slipway.run_note import tell_act
from slipway_core.errors import SlipwayError


@contextmanager
def noted_failures(context: Mapping[str, Any]) -> Iterator[None]:
    """`airflow_failures` for what a person asks for by a run of its own: the run's note says why it was not done.

    :param context: the task's; the run's parameter ``model`` says what it is about, without one every model.
    """
    try:
        with airflow_failures():
            yield
    except PlainFailure as failure:
        error = failure.__cause__
        reason = error.in_short() if isinstance(error, SlipwayError) else str(failure)
        remedy = error.remedy if isinstance(error, SlipwayError) else None
        tell_act(
            context, context["params"].get("model"), f"not done: {reason}" + (f". {remedy}" if remedy else "")
        )
        raise
