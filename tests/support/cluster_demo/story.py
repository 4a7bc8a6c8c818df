"""What is played on the cluster: the demo's four releases, and a fifth whose Airflow is killed in its canary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from slipway_core.errors import SlipwayError
from slipway_digit_models.training import golden_set, train
from slipway_sandbox.demo.chapters import CHAPTERS, Chapter, ChapterResult, problems
from slipway_sandbox.demo.counts import Traffic
from slipway_sandbox.demo.narrator import Narrator
from slipway_sandbox.demo.story import RELEASE_DAG, Story
from slipway_sandbox.demo.summary import report
from slipway_sandbox.demo.traffic import TrafficClient
from slipway_sandbox.services.object_store import client
from tests.support.cluster_demo.guarding import GuardedEnd, candidate_percent, ended_by_the_guard
from tests.support.cluster_demo.running import PROTOCOLS, RunningDemo
from tests.support.conformance.release.airflow import MODEL
from tests.support.e2e.airflow_processes import AirflowProcesses
from tests.support.e2e.running_sandbox import RunningSandbox
from tests.support.waiting import wait_until

# Each pod is pulled up by a kubelet here, on a machine that runs the whole cluster beside it.
_CHAPTER_LIMIT_S = 900.0
_CANARY_LIMIT_S = 600.0
# A good version, so that nothing but the death of Airflow can end its canary.
GUARDED_VERSION, _RECIPE = 5, 2


@dataclass(frozen=True)
class Played:
    """What came of the story.

    :param guarded: how the canary ended whose Airflow was killed; None: it was not reached.
    :param problems: what went otherwise than it should, each as a sentence.
    """

    results: Sequence[ChapterResult]
    traffic: Traffic
    guarded: GuardedEnd | None
    problems: Sequence[str]

    def document(self, wall_s: float) -> dict[str, Any]:
        """Return the report for programs: that of `make demo`, and the guarded canary."""
        found = report(wall_s, self.results, self.traffic)
        if self.guarded is not None:
            found["guarded"] = {
                "version": GUARDED_VERSION,
                "weight": self.guarded.weight,
                "seconds_from_death_to_weight_0": round(self.guarded.patched_s, 1),
                "seconds_from_death_to_last_answer": round(self.guarded.safe_s, 1),
                "ended_by": self.guarded.job,
            }
        return found


def chapters() -> list[Chapter]:
    """Return the demo's chapters with this machine's limits."""
    return [replace(one, limit_s=_CHAPTER_LIMIT_S) for one in CHAPTERS]


def play(running: RunningDemo, clients: TrafficClient, console: Console) -> Played:
    """Play the four chapters, and the fifth where they went well."""
    settings = running.settings
    found, guarded = [], None
    with Narrator(console) as narrator:
        story = Story(
            running.airflow(), client(settings, "s3"), settings.bucket, clients, narrator, chapters=chapters()
        )
        try:
            story.tell()
        except SlipwayError as error:
            found.append(str(error))
        found += problems(story.results, clients.traffic(), PROTOCOLS)
        if not found:
            narrator.now("a fifth version, whose Airflow is killed in its canary")
            try:
                guarded = play_guarded(running, clients)
            except AssertionError as error:
                found.append(str(error))
    return Played(story.results, clients.traffic(), guarded, found)


def play_guarded(running: RunningDemo, clients: TrafficClient) -> GuardedEnd:
    """Begin a release, kill Airflow when its candidate has users, and see the guard's pod end the canary.

    :raises AssertionError: the canary does not begin, or nobody ends it.
    """
    sandbox = RunningSandbox(running.settings)
    files = {"model.onnx": train(_RECIPE).onnx, "golden.npz": golden_set(_RECIPE)}
    sandbox.land(MODEL, GUARDED_VERSION, files=files)
    running.airflow().start_run(RELEASE_DAG, {"model": MODEL, "version": GUARDED_VERSION})
    name = str(GUARDED_VERSION)

    def has_users() -> bool:
        answered = clients.traffic().last.answered_by.get(name, 0) > 0
        return answered and (candidate_percent(running.cluster) or 0) > 0

    wait_until(has_users, "users of the fifth version", _CANARY_LIMIT_S, poll_s=0.5)
    with AirflowProcesses(running.settings).dead():
        return ended_by_the_guard(running.cluster, clients.traffic, GUARDED_VERSION)
