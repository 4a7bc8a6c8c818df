"""Which errors fail a task at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_triton.errors import UserError


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Fail the task without retries for what a person must change; all else passes, so that Airflow tries again."""
    try:
        yield
    except UserError as error:
        raise AirflowFailException(str(error)) from error
