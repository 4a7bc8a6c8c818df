"""The measure of the mixed-version window, against fleets whose window is known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.fleet.answers import FleetAnswer, read
from benchmarks.fleet.window import mixed_version_window, unseen

PERIOD_S = 0.01
ANSWER_S = 0.002


def fleet(
    changes: Mapping[str, float], *, until_s: float = 2.0, back_at_s: float | None = None
) -> list[FleetAnswer]:
    """Return the answers of servers asked every 10 ms that change from 1 to 2 at these times."""
    found = []
    for place, (server, change_s) in enumerate(changes.items()):
        for number in range(int(until_s / PERIOD_S)):
            sent = number * PERIOD_S + place * 0.001
            is_new = sent >= change_s and (back_at_s is None or sent < back_at_s)
            version = 2 if is_new else 1
            protocol = "http" if number % 2 else "grpc"
            found.append(FleetAnswer(server, protocol, sent, sent + ANSWER_S, version, version))
    return found


def test_servers_that_change_at_different_times_are_caught() -> None:
    """The window of a fleet that mixes versions for 300 ms is 300 ms, to the time between two samples."""
    window = mixed_version_window(fleet({"a": 0.5, "b": 0.8, "c": 0.6}), 1, 2)
    assert window.answered_ms == pytest.approx(300, abs=1000 * PERIOD_S)
    assert window.at_most_ms == pytest.approx(300, abs=2500 * PERIOD_S)
    assert window.at_most_ms is not None
    assert window.at_most_ms >= 300
    assert window.late > 0


def test_a_server_that_goes_back_to_the_old_version_is_caught() -> None:
    """One server that answers the old version once more makes the window last until then."""
    answers = [*fleet({"a": 0.5, "b": 0.5}), FleetAnswer("a", "http", 1.5, 1.51, 1, 1)]
    assert mixed_version_window(answers, 1, 2).answered_ms == pytest.approx(1010, abs=1000 * PERIOD_S)


def test_a_server_that_never_changes_makes_the_window_last() -> None:
    """The window lasts until the last answer of that server, and its true length is not known."""
    window = mixed_version_window(fleet({"a": 0.5, "b": 9.0}), 1, 2)
    assert window.answered_ms == pytest.approx(1490, abs=1000 * PERIOD_S)
    assert window.at_most_ms is None


def test_a_fleet_that_changes_at_once_has_no_window() -> None:
    """Nothing is mixed, and what may have been between the samples is said."""
    window = mixed_version_window(fleet({"a": 0.5, "b": 0.5}), 1, 2)
    assert (window.answered_ms, window.asked_ms, window.late) == (0.0, 0.0, 0)
    assert window.at_most_ms == pytest.approx(12, abs=2)


def test_a_request_in_flight_counts_until_it_is_answered() -> None:
    """A slow answer of the old version is in the window; but nobody asked for it after the change."""
    answers = [*fleet({"a": 0.5, "b": 0.5}), FleetAnswer("a", "http", 0.45, 0.7, 1, 1)]
    window = mixed_version_window(answers, 1, 2)
    assert window.answered_ms == pytest.approx(198, abs=1)
    assert window.asked_ms == 0.0


def test_a_release_that_was_taken_back_mixed_as_long_as_the_new_version_answered() -> None:
    """From the first to the last answer of the version that was taken back."""
    answers = fleet({"a": 0.5, "b": 9.0}, back_at_s=0.9)
    assert mixed_version_window(answers, 1, 1).answered_ms == pytest.approx(390, abs=1)
    assert mixed_version_window(fleet({"a": 9.0}), 1, 1).answered_ms == 0.0


def test_failed_requests_tell_no_version() -> None:
    """An error is neither the old version nor the new one."""
    answers = [*fleet({"a": 0.5}), FleetAnswer("a", "http", 1.0, 1.1, error="HTTP 404")]
    assert mixed_version_window(answers, 1, 2).answered_ms == 0.0


def test_what_was_not_seen_is_said() -> None:
    """A window means nothing where a server, a protocol or a version did not answer."""
    answers = [one for one in fleet({"a": 0.5, "b": 9.0}) if (one.server, one.protocol) != ("a", "http")]
    assert unseen(answers, ["a", "b", "c"], 1, 2) == [
        "a over http with version 1",
        "a over http with version 2",
        "b over http with version 2",
        "b over grpc with version 2",
        "c over http with version 1",
        "c over http with version 2",
        "c over grpc with version 1",
        "c over grpc with version 2",
    ]


def test_answers_come_back_from_their_lines() -> None:
    """What the clients write is what is read."""
    answers = [*fleet({"a": 0.5}, until_s=0.1), FleetAnswer("a", "http", 1.0, 1.1, error="HTTP 404")]
    assert read(one.to_line().encode() for one in answers) == answers
