"""fleet_release and fleet_watch by Airflow's scheduler: two real servers, each version on both or on none."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.e2e.fleet_story import LEFT, RIGHT, FleetRun, FleetStory
from tests.support.e2e.release_files import FLEET, ON_CALL

pytestmark = pytest.mark.nightly


def test_version_comes_to_all_servers(fleet: FleetStory) -> None:
    """The run is green, both servers are on the version by their own word, and the note says so."""
    for run, version in ((fleet.first, 1), (fleet.third, 3)):
        assert (run.run.state, run.tasks) == (
            "success",
            {"place": "success", "release": "success", "settle": "skipped"},
        )
        assert_on(run, version)
        assert run.note.startswith(f"{FLEET} {version}: on 2 of 2 servers")


def test_no_user_is_failed(fleet: FleetStory) -> None:
    """Users of each server are answered by the version before, then by the new one, and never again by the other."""
    assert [one for one in fleet.answers if one.failure] == []
    for server in (LEFT, RIGHT):
        versions = [one.version for one in fleet.answers if one.server == server]
        assert list(Counter(versions)) == ["1", "3"]
        assert versions == sorted(versions, key=str)


def test_version_that_was_taken_back_comes_to_no_server(fleet: FleetStory) -> None:
    """Its record refuses it before anything is copied, and the run is red."""
    assert fleet.refused.run.state == "failed"
    assert fleet.refused.tasks["place"] == "failed"
    assert_on(fleet.refused, 1)
    assert fleet.refused.note.startswith(
        f"{FLEET} 2: not released: version 2 of {ON_CALL!r} may not go to a fleet: it was: "
    )


def test_run_that_a_person_stops_goes_back(fleet: FleetStory) -> None:
    """Stopped when one server had loaded the version and the other one hung: users have what they had."""
    stopped = fleet.stopped
    assert stopped.run.state == "failed"
    assert stopped.tasks == {"place": "success", "release": "failed", "settle": "success"}
    assert_on(stopped, 3)
    assert stopped.note.startswith(f"{FLEET} 1: interrupted, then settled: rolled back")


def test_server_that_differs_is_told(fleet: FleetStory) -> None:
    """The watch fails, and keeps in the bucket what it has told: the version, and what is loaded besides."""
    assert set(fleet.notified.notified) == {
        f"{LEFT} serves version 1, the fleet's version is 3",
        f"{LEFT} has {ON_CALL}_v3 loaded as well",
    }


def test_server_that_an_ended_release_left_open_is_led_back(fleet: FleetStory) -> None:
    """Airflow says that its run is over, so the watch leads back; nothing is left to tell."""
    assert fleet.led_back.run.state == "success"
    assert fleet.led_back.tasks == {"list_fleets": "success", "watch": "success"}
    assert fleet.led_back.parity.open_release == ""
    assert_on(fleet.led_back, 3)


def assert_on(run: FleetRun, version: int) -> None:
    """Assert that the servers are alike, on a version, with nothing else loaded."""
    assert run.parity.differences == ()
    assert run.code == 0
    assert run.parity.version == version
    assert {one.server: one.version for one in run.parity.servers} == {LEFT: version, RIGHT: version}
    assert {name for names in run.loaded.values() for name in names} - {ON_CALL} == {f"{ON_CALL}_v{version}"}
