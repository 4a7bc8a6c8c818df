"""The errors of the Triton provider as Slipway's: the one place where the one becomes the other.

A module of its own, which every task imports for its log: it needs neither the hook nor Triton's client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_triton.errors import TritonError
from slipway_core.errors import SlipwayError


def slipway_error(error: TritonError) -> SlipwayError:
    """Return an error of the provider as Slipway's of the same name, in the same words."""
    return SlipwayError.from_dict(error.to_dict())


@contextmanager
def slipway_errors() -> Iterator[None]:
    """Raise what the provider raises as Slipway's error.

    :raises SlipwayError: the one of the same name; its cause is the provider's.
    """
    try:
        yield
    except TritonError as error:
        raise slipway_error(error) from error
