"""How every program ends: the result is written whatever happened, as long as S3 answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slipway_pod.errors import PodError
from slipway_pod.program import result as module
from slipway_pod.program.result import run_to_result

PLACE = "s3://bucket/work"
UNAVAILABLE = PodError("StoreUnavailableError", "S3 does not answer")


class FakeStore:
    """Keeps what was done to it, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.written: Any = None
        self.write_fails = False
        self.inputs = {"s3://b/k": {"size_bytes": 1, "sha256": "0" * 64}}

    def delete(self, url: str) -> None:
        self.done.append(f"delete {url}")

    def write_json(self, value: Mapping[str, Any], url: str) -> None:
        if self.write_fails:
            raise UNAVAILABLE
        self.done.append(f"write {url}")
        self.written = value


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    fake = FakeStore()
    monkeypatch.setattr(module, "Store", lambda: fake)
    # pytest keeps its own handlers.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return fake


def run(store: FakeStore, error: Exception | None = None) -> int:
    def work(given: Any, result: dict[str, Any]) -> None:
        assert given is store
        store.done.append("work")
        result["rows"] = 3
        if error is not None:
            raise error

    def last(given: Any, place: str, result: dict[str, Any]) -> None:
        assert (given, place) == (store, PLACE)
        store.done.append("last")
        result["files"] = ["sbom.json"]

    return run_to_result(PLACE, work, tools=lambda: {"numpy": "2"}, subject="comparison", last=last)


def test_the_result_is_written_last(store: FakeStore, capsys: pytest.CaptureFixture[str]) -> None:
    """An older result goes first, so that it is never taken for this one's; the new one comes when all is done."""
    assert run(store) == 0
    assert store.done == [f"delete {PLACE}/result.json", "work", "last", f"write {PLACE}/result.json"]
    assert store.written.pop("seconds") >= 0
    expected = {"outcome": "pass", "error": None, "rows": 3, "files": ["sbom.json"], "tools": {"numpy": "2"}}
    expected["inputs"] = store.inputs
    assert store.written == expected
    assert "done: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "outcome"),
    [
        (PodError("GoldenSetError", "no rows", found="none"), 3, "error"),
        (PodError("ParityRefusedError", "answers otherwise"), 4, "refused"),
        (PodError("TimedOutError", "too slow"), 75, "error"),
        (ZeroDivisionError("by zero"), 1, "error"),
    ],
)
def test_a_failure_is_told_with_what_was_found_before(
    store: FakeStore, capsys: pytest.CaptureFixture[str], error: Exception, code: int, outcome: str
) -> None:
    """Outcome, error and exit code tell the failure; what was filled in before it stays."""
    assert run(store, error) == code
    assert (store.written["outcome"], store.written["rows"]) == (outcome, 3)
    assert store.written["files"] == ["sbom.json"]
    kind = error.kind if isinstance(error, PodError) else "SlipwayError"
    assert store.written["error"]["kind"] == kind
    assert "error: " in capsys.readouterr().err


def test_a_store_that_is_away_is_not_asked_again(store: FakeStore) -> None:
    """Where S3 did not answer, no result is written, and the exit code says to try again."""
    assert run(store, UNAVAILABLE) == 75
    assert store.done == [f"delete {PLACE}/result.json", "work"]


def test_a_result_that_cannot_be_written_is_a_failure(store: FakeStore) -> None:
    """A run that cannot tell its result has not passed; an earlier failure keeps its exit code."""
    store.write_fails = True
    assert run(store) == 75
    assert run(store, PodError("GoldenSetError", "no rows")) == 3


def test_a_last_step_that_fails_is_told_in_the_result(store: FakeStore) -> None:
    """Where the list of software cannot be written, the result still is, and says why.

    An earlier failure counts more.
    """

    def no_room(*_: Any) -> None:
        raise PodError("UserError", "/tmp cannot be written to")

    def refused(*_: Any) -> None:
        raise PodError("ParityRefusedError", "answers otherwise")

    assert run_to_result(PLACE, lambda *_: None, tools=dict, last=no_room) == 3
    assert (store.written["outcome"], store.written["error"]["kind"]) == ("error", "UserError")
    assert run_to_result(PLACE, refused, tools=dict, last=no_room) == 4
    assert (store.written["outcome"], store.written["error"]["kind"]) == ("refused", "ParityRefusedError")


def test_nothing_runs_where_the_keys_cannot_be_kept(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of an earlier attempt is gone all the same, and the new one says why."""

    def refuse() -> None:
        raise PodError("SlipwayError", "no prctl here")

    monkeypatch.setattr(module, "hide_from_others", refuse)
    assert run(store) != 0
    assert store.done == [f"delete {PLACE}/result.json", "last", f"write {PLACE}/result.json"]
    assert store.written["outcome"] == "error"
    assert "no prctl here" in str(store.written["error"])
