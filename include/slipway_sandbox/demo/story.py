"""Plays the story: lands each version, starts its release or waits for it to start, watches it to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from slipway_core.errors import ServerUnavailableError, TimedOutError
from slipway_core.record.arrivals import run_id_for
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_digit_models.training import upload_training_artifacts
from slipway_sandbox.demo.airflow_client import AirflowClient, DagRun
from slipway_sandbox.demo.chapters import CHAPTERS, MODEL, Chapter, ChapterResult
from slipway_sandbox.demo.narrator import Narrator
from slipway_sandbox.demo.records import Records
from slipway_sandbox.demo.traffic import TrafficClient

RELEASE_DAG = "model_release"
INTAKE_DAG = "model_intake"

_ANSWERS_LIMIT_S = 60.0
_LAST_ANSWERS = 3

Found = TypeVar("Found")


class Story:
    """The four chapters against a running sandbox.

    `s3` is a boto3 client; `traffic` is running already, and waits until the first version answers.
    `results` holds the chapters that have ended.

    :param chapters: what is released, one after the other.
    """

    def __init__(
        self,
        airflow: AirflowClient,
        s3: Any,
        bucket: str,
        traffic: TrafficClient,
        narrator: Narrator,
        *,
        chapters: Sequence[Chapter] = CHAPTERS,
        poll_s: float = 0.5,
    ) -> None:
        self._chapters = chapters
        self.results: list[ChapterResult] = []
        self._poll_s = poll_s
        self._airflow = airflow
        self._s3 = s3
        self._bucket = bucket
        self._records = Records(s3, bucket)
        self._traffic = traffic
        self._narrator = narrator

    def tell(self) -> None:
        """Play chapter after chapter into `results`; stop after one that ends otherwise than it should.

        :raises TimedOutError: a run does not end in time.
        :raises SlipwayError: Airflow's API fails, and goes on failing.
        """
        for dag_id in (INTAKE_DAG, RELEASE_DAG):
            self._airflow.unpause(dag_id)
        for chapter in self._chapters:
            result = self._tell_chapter(chapter)
            self.results.append(result)
            if not result.as_expected:
                return
            if len(self.results) == 1:
                self._narrator.now("waiting for the first answer to a client")
                self._await_answers(1)
        self._await_answers(_LAST_ANSWERS)

    def _tell_chapter(self, chapter: Chapter) -> ChapterResult:
        self._narrator.begin(chapter)
        self._narrator.now("training")
        upload_training_artifacts(self._s3, self._bucket, MODEL, chapter.version)
        run = self._start(chapter) if chapter.started_by == "rest" else self._wait_for_start(chapter)
        if run is not None:
            run = self._wait_for_end(chapter, run)
        events = self._records.events(MODEL, chapter.version)
        result = ChapterResult(chapter, run, events, fold(events) if events else None)
        self._narrator.end(result)
        return result

    def _start(self, chapter: Chapter) -> DagRun:
        conf = {
            "model": MODEL,
            "version": chapter.version,
            "reason": f"the demo: {chapter.title}",
        }
        return self._airflow.start_run(RELEASE_DAG, conf)

    def _wait_for_start(self, chapter: Chapter) -> DagRun | None:
        """Return the run that an event starts, by the id made of model, version and ready.json; None: none in time."""
        key = f"incoming/{MODEL}/{chapter.version}/ready.json"
        ready = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        run_id = run_id_for(MODEL, chapter.version, ready)
        self._narrator.now(f"ready.json is uploaded; waiting for run {run_id}")
        return self._poll(lambda: self._airflow.run(RELEASE_DAG, run_id), chapter.limit_s)

    def _wait_for_end(self, chapter: Chapter, run: DagRun) -> DagRun:
        def finished() -> DagRun | None:
            self._show(self._records.events(MODEL, chapter.version))
            now = self._airflow.run(RELEASE_DAG, run.run_id)
            return now if now is not None and now.is_finished else None

        ended = self._poll(finished, chapter.limit_s)
        if ended is None:
            raise TimedOutError(
                f"the release of version {chapter.version} did not end",
                expected=f"run {run.run_id} of {RELEASE_DAG} finished within {chapter.limit_s:.0f} s",
                found=self._narrator.latest,
                remedy="Look at the run in Airflow's UI; the logs of the parts are in the sandbox's run/logs.",
            )
        return ended

    def _await_answers(self, more: int, limit_s: float = _ANSWERS_LIMIT_S) -> None:
        """Wait until there are `more` snapshots beyond those there are."""
        wanted = len(self._traffic.traffic().snapshots) + more
        if not self._poll(lambda: len(self._traffic.traffic().snapshots) >= wanted or None, limit_s):
            raise TimedOutError(
                "the clients get no answers",
                expected=f"a good answer over HTTP and over gRPC within {limit_s:.0f} s",
                remedy=f"Look at {self._traffic.output.with_suffix('.log')} and at the router's log.",
            )

    def _show(self, events: Sequence[Event]) -> None:
        if events:
            self._narrator.event(events[-1])

    def _poll(self, look: Callable[[], Found | None], limit_s: float) -> Found | None:
        """Look until something is found; None when `limit_s` seconds were not enough.

        A server that does not answer is asked again within the limit.
        """
        deadline = time.monotonic() + limit_s
        while True:
            try:
                found = look()
            except ServerUnavailableError:
                if time.monotonic() > deadline:
                    raise
                found = None
            if found is not None:
                return found
            if time.monotonic() > deadline:
                return None
            time.sleep(self._poll_s)
