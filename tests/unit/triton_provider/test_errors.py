"""The provider's errors: what they say, and what becomes of them in an event and in a task."""

from __future__ import annotations

import pickle

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_triton.errors import (
    LoadRefusedError,
    ServerUnavailableError,
    TritonError,
    all_errors,
)
from airflow_provider_triton.operators.failures import airflow_failures

REFUSED = LoadRefusedError("it does not load", expected="a model", found="none of it.", remedy="mend it")


def test_an_error_says_what_and_what_to_do() -> None:
    """One text for logs; what is not known is left out."""
    assert str(REFUSED) == "it does not load. Expected a model; found none of it. Remedy: mend it."
    assert str(TritonError("no")) == "no."
    assert REFUSED.in_short() == "it does not load: none of it"
    assert LoadRefusedError("no", found="none").in_short() == "no"


@pytest.mark.parametrize("kind", [*all_errors()], ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_a_triggers_event_and_from_another_process(kind: type[TritonError]) -> None:
    """Its class and its words are the same."""
    error = kind("what", expected="e", found="f", remedy="r")
    for again in (TritonError.from_dict(error.to_dict()), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert (type(again), again.to_dict()) == (kind, error.to_dict())


def test_an_event_that_nobody_knows_is_an_error_all_the_same() -> None:
    """An unknown kind, and an empty one, are plain errors."""
    assert type(TritonError.from_dict({"kind": "Odd", "what": "w"})) is TritonError
    assert str(TritonError.from_dict({})) == "an error without a description."


def test_what_a_server_writes_is_cut() -> None:
    """Nobody reads on, and a database need not keep it."""
    assert len(str(LoadRefusedError("no", found="x" * 100_000))) < 5000


def test_what_a_person_must_change_fails_at_once_and_the_rest_is_tried_again() -> None:
    """The message is the error's."""
    with pytest.raises(AirflowFailException, match="mend it") as caught, airflow_failures():
        raise REFUSED
    assert caught.value.__cause__ is REFUSED
    with pytest.raises(ServerUnavailableError), airflow_failures():
        raise ServerUnavailableError("away")
