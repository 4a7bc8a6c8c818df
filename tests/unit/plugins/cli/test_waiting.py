"""Waiting for the end of a release, and the exit codes that scripts read."""

from __future__ import annotations

import json

import pytest

from tests.support.airflow_api.fake_api import RUN
from tests.support.cli.calls import Call
from tests.support.cli.documents import document, line, resting, view
from tests.support.cli.server import FakeClock, FakeSlipway


def ending(server: FakeSlipway, outcome: str, reason: str = "") -> None:
    """Let version 3's release be over."""
    over = line(3, outcome=outcome, standing="promoted" if outcome == "promoted" else "", reason=reason)
    server.models["digits"] = document(versions=(over, line(2)), open_release=None, last=over)
    server.runs["digits-3"] = {**RUN, "dag_run_id": "digits-3", "state": "success"}


@pytest.fixture(autouse=True)
def digits(server: FakeSlipway) -> FakeSlipway:
    """Version 3 is in its canary."""
    server.models["digits"] = document()
    server.views["digits", 3] = view()
    server.runs["digits-3"] = {**RUN, "dag_run_id": "digits-3", "state": "running"}
    return server


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("promoted", 0), ("refused", 1), ("rolled_back", 1), ("failed", 1), ("cancelled", 1)],
)
def test_the_status_is_the_releases_end(
    server: FakeSlipway, call: Call, clock: FakeClock, outcome: str, code: int
) -> None:
    """0 for a promotion, 1 for every other end, with the reason and the next command."""
    clock.then = [lambda: None, lambda: ending(server, outcome, "the reason")]
    called = call("status", "digits")
    assert called.code == code
    assert (clock.at - document().written_at).total_seconds() == 5
    if code:
        assert "found:    the reason" in called.err
        assert "next:     slipway explain digits 3" in called.err
    else:
        assert "digits version 3: promoted" in called.out


def test_a_release_that_is_not_over_in_time_is_code_5(call: Call, clock: FakeClock) -> None:
    """Nothing is stopped, which the error says."""
    called = call("status", "digits", "--timeout", "10s")
    assert called.code == 5
    assert "nothing was stopped" in called.err
    assert "next:     slipway get digits -w" in called.err


def test_a_look_without_waiting_says_where_a_release_is(call: Call) -> None:
    """Exit code 0, at once."""
    called = call("status", "digits", "--no-wait")
    assert (called.code, called.out.strip()) == (0, "version 3: step 2 of 3, 50 %")


def test_without_a_release_under_way_the_last_one_counts(server: FakeSlipway, call: Call) -> None:
    """Refused is 1."""
    server.models["digits"] = resting()
    assert call("status", "digits").code == 1


def test_a_model_that_was_never_released_is_no_success(server: FakeSlipway, call: Call) -> None:
    """Exit code 1, and how to begin."""
    server.models["digits"] = resting(versions=(), last=None)
    called = call("status", "digits")
    assert called.code == 1
    assert "slipway release digits VERSION" in called.err


def test_an_outcome_for_programs_is_json_whatever_it_is(server: FakeSlipway, call: Call) -> None:
    """The document on standard output, the error on standard error."""
    ending(server, "rolled_back", "too many errors")
    called = call("status", "digits", "-o", "json")
    found = json.loads(called.out)
    assert (called.code, found["outcome"], found["release"]["reason"]) == (
        1,
        "rolled_back",
        "too many errors",
    )


def test_a_server_that_is_silent_for_a_while_ends_no_waiting(
    server: FakeSlipway, call: Call, clock: FakeClock
) -> None:
    """It is said, and the release's end is still the exit code."""

    def silent() -> None:
        server.refusals["/slipway/api"] = (503, {"detail": "The store does not answer."})

    def back() -> None:
        server.refusals.clear()
        ending(server, "promoted")

    clock.then = [silent, back]
    called = call("status", "digits")
    assert called.code == 0
    assert "The store does not answer" in called.out


def test_a_release_that_is_waited_for_ends_with_its_outcome(
    server: FakeSlipway, call: Call, clock: FakeClock
) -> None:
    """`release --wait && next` goes on after a promotion only."""
    server.models["digits"] = resting(last=line(2), versions=(line(2),))
    server.runs.clear()
    clock.then = [lambda: ending(server, "promoted")]
    assert call("release", "digits", "3", "--wait").code == 0


def test_a_release_that_is_not_admitted_says_why(server: FakeSlipway, call: Call) -> None:
    """The run failed before it wrote a record: its note is the reason."""
    server.models["digits"] = resting(versions=(line(2),), last=line(2))
    server.runs.clear()
    reply = server.reply

    def failing(method: str, path: str, body: object) -> tuple[int, object]:
        status, found = reply(method, path, body)
        if method == "POST":
            found |= {"state": "failed", "note": "nothing has landed under incoming/digits/3/"}
        return status, found

    server.api.reply = failing
    called = call("release", "digits", "3", "--wait")
    assert called.code == 1
    assert "found:    nothing has landed under incoming/digits/3/" in called.err
    assert "next:     slipway logs digits digits-3" in called.err


def test_the_first_release_of_a_model_needs_no_record(
    server: FakeSlipway, call: Call, clock: FakeClock
) -> None:
    """Nothing is known of it before, nor right after its start."""
    del server.models["digits"]
    server.runs.clear()
    clock.then = [lambda: None, lambda: ending(server, "promoted")]
    assert call("release", "digits", "3", "--wait").code == 0
