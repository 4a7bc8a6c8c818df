"""Playing the story: who starts which release, how it is watched, when it stops."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from slipway_core.errors import ServerUnavailableError, TimedOutError
from slipway_core.record.arrivals import run_id_for
from slipway_core.record.events import Event
from slipway_core.spec.run_overrides import RELEASE_PARAMETERS
from slipway_sandbox.demo.airflow_client import AirflowClient, DagRun
from slipway_sandbox.demo.chapters import CHAPTERS, Chapter
from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.demo.narrator import Narrator, in_words
from slipway_sandbox.demo.records import Records
from slipway_sandbox.demo.story import Story
from slipway_sandbox.demo.traffic import TrafficClient


class FakeStore:
    """The calls of an S3 client that the story makes; `landed(version)` is told when a `ready.json` lands."""

    def __init__(self, landed: Callable[[int], None]) -> None:
        self.objects: dict[str, bytes] = {}
        self.gets: list[str] = []
        self._landed = landed

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803  boto3's own names
        self.objects[Key] = Body
        if Key.endswith("/ready.json"):
            self._landed(int(Key.split("/")[2]))

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803  boto3's own names
        self.gets.append(Key)
        return {"Body": io.BytesIO(self.objects[Key])}

    def get_paginator(self, _operation: str) -> FakeStore:
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> list[dict[str, Any]]:  # noqa: N803  boto3's own names
        return [{"Contents": [{"Key": key} for key in self.objects if key.startswith(Prefix)]}, {}]


class FakeAirflow(AirflowClient):
    """An Airflow whose runs end at the second look, and write the record of the outcome they are given."""

    def __init__(self, recorded: Callable[[int, str], list[Event]]) -> None:
        super().__init__("http://nowhere", "admin", "")
        self.store = FakeStore(self._landed)
        self.outcomes = {chapter.version: chapter.outcome for chapter in CHAPTERS}
        self.started: list[dict[str, Any]] = []
        self.unpaused: list[str] = []
        self.intake_works = True
        self.trouble = 0
        self._recorded = recorded
        self._looks: dict[str, int] = {}
        self._versions: dict[str, int] = {}

    def _landed(self, version: int) -> None:
        if version == 2 and self.intake_works:
            ready = self.store.objects["incoming/digits/2/ready.json"]
            self._versions[run_id_for("digits", 2, ready)] = version

    def unpause(self, dag_id: str, *, limit_s: float = 60.0) -> None:
        self.unpaused.append(dag_id)

    def start_run(self, dag_id: str, conf: Any, run_id: str | None = None) -> DagRun:
        self.started.append(dict(conf))
        name = f"manual-{conf['version']}"
        self._versions[name] = conf["version"]
        return DagRun(dag_id, name, "queued", None, None)

    def run(self, dag_id: str, run_id: str) -> DagRun | None:
        if self.trouble:
            self.trouble -= 1
            raise ServerUnavailableError("Airflow's API did not answer")
        if run_id not in self._versions:
            return None
        self._looks[run_id] = self._looks.get(run_id, 0) + 1
        ended = self._looks[run_id] > 2
        version = self._versions[run_id]
        events = self._recorded(version, self.outcomes[version])
        for event in events if ended else events[:2]:
            self.store.objects[event.key] = event.to_bytes()
        return DagRun(dag_id, run_id, "success" if ended else "running", None, None)


class FakeClients(TrafficClient):
    """Clients that write a snapshot whenever they are asked."""

    def __init__(self, good_traffic: Traffic) -> None:
        super().__init__(
            port=1, authority="a", model="digits", rate_rps=1, output=Path("t"), sandbox_root=Path("s")
        )
        self._good = good_traffic
        self._asked = 0

    def traffic(self) -> Traffic:
        self._asked += 1
        return Traffic(self._good.snapshots[: self._asked], self._good.failures)


@pytest.fixture
def airflow(build: Any) -> FakeAirflow:
    """An Airflow and a store in which everything goes as it should."""
    return FakeAirflow(build["recorded"])


def story_of(
    airflow: FakeAirflow,
    good_traffic: Traffic,
    output: io.StringIO | None = None,
    chapters: Sequence[Chapter] = CHAPTERS,
) -> Story:
    narrator = Narrator(Console(file=output or io.StringIO(), width=120))
    clients = FakeClients(good_traffic)
    return Story(airflow, airflow.store, "slipway", clients, narrator, chapters=chapters, poll_s=0)


def test_the_story_is_told_to_its_end(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """All four chapters end as meant, each with its run and its record."""
    story = story_of(airflow, good_traffic)
    story.tell()
    assert [one.as_expected for one in story.results] == [True] * 4
    assert [one.run.run_id for one in story.results if one.run] == [
        "manual-1",
        run_id_for("digits", 2, airflow.store.objects["incoming/digits/2/ready.json"]),
        "manual-3",
        "manual-4",
    ]


def test_version_2_is_started_by_nobody(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """Versions 1, 3 and 4 are started over REST; version 2 only lands."""
    story_of(airflow, good_traffic).tell()
    assert [conf["version"] for conf in airflow.started] == [1, 3, 4]
    assert "incoming/digits/2/ready.json" in airflow.store.objects
    assert set(airflow.unpaused) == {"model_release", "model_intake"}


def test_the_conf_names_model_version_and_reason(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """What is sent is what the form of the DAG would send; the canary is the release file's."""
    story_of(airflow, good_traffic).tell()
    first = airflow.started[0]
    assert (first["model"], first["version"]) == ("digits", 1)
    assert first["reason"]
    assert set(first) <= set(RELEASE_PARAMETERS) - {"steps", "window_s"}


def test_a_chapter_that_goes_wrong_ends_the_story(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """Nothing is built on a release that ended otherwise than it should."""
    airflow.outcomes[2] = "rolled_back"
    story = story_of(airflow, good_traffic)
    story.tell()
    assert [one.as_expected for one in story.results] == [True, False]


def test_an_event_that_starts_nothing_ends_the_story(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """Waiting for the run of version 2 has a limit, and its chapter then has no run."""
    impatient = [replace(chapter, limit_s=0.05) for chapter in CHAPTERS]
    airflow.intake_works = False
    story = story_of(airflow, good_traffic, chapters=impatient)
    story.tell()
    assert story.results[1].run is None


def test_a_run_that_does_not_end_is_named(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """The error names version, run and what was seen last."""
    impatient = [replace(CHAPTERS[0], limit_s=0)]
    with pytest.raises(TimedOutError, match=r"version 1 did not end.*manual-1"):
        story_of(airflow, good_traffic, chapters=impatient).tell()


def test_an_airflow_that_stumbles_is_asked_again(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """A call that fails for the moment does not end the story."""
    airflow.trouble = 3
    story = story_of(airflow, good_traffic)
    story.tell()
    assert len(story.results) == 4


def test_progress_is_said_once_for_each_change(airflow: FakeAirflow, good_traffic: Traffic) -> None:
    """Without a terminal there is a line for each change and none for each look."""
    output = io.StringIO()
    story_of(airflow, good_traffic, output).tell()
    lines = output.getvalue().splitlines()
    assert sum("Version 1:" in line for line in lines) == 1
    assert sum("convert" in line for line in lines) == 4
    assert any("rolled_back" in line for line in lines)


def test_an_event_is_fetched_once(airflow: FakeAirflow, build: Any) -> None:
    """Events never change, so what was read stays read."""
    for event in build["recorded"](1, "promoted"):
        airflow.store.objects[event.key] = event.to_bytes()
    records = Records(airflow.store, "slipway")
    assert records.events("digits", 1) == records.events("digits", 1)
    assert len(airflow.store.gets) == len(set(airflow.store.gets)) == 8


def test_events_are_ordered_by_number(airflow: FakeAirflow, build: Any) -> None:
    """The order of the listing does not matter."""
    for event in reversed(build["recorded"](1, "promoted")):
        airflow.store.objects[event.key] = event.to_bytes()
    assert [event.seq for event in Records(airflow.store, "slipway").events("digits", 1)] == list(range(1, 9))


@pytest.mark.parametrize("outcome", ["promoted", "rolled_back", "refused"])
def test_every_event_has_words(outcome: str, build: Any) -> None:
    """No event of a record is told in program's names or with a missing value."""
    words = [in_words(event) for event in build["recorded"](3, outcome)]
    assert all(text and "_" not in text and "None" not in text for text in words)
