"""What a watch makes of golden requests that are streamed to a model which is asked over streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from slipway.release_run import ReleaseRun
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import CANDIDATE_URI, StreamsDouble
from tests.support.plugins.watching import HEALTHY, PLAN, has_no_data, judged, kinds, newest, watch
from tests.support.waiting import until

Live = Callable[..., KnativeModel]


async def test_a_candidate_that_fails_inside_streams_is_never_promoted(
    release_run: ReleaseRun, live: Live
) -> None:
    """The router counts no error of its users, streamed golden requests fail one and all: users are taken back."""
    model = live()
    streams = StreamsDouble((20, 0), (20, 20))
    watched, _, _ = watch(release_run, model, HEALTHY, streams=streams)
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    verdict = newest(watched, "window_judged").verdict
    assert (verdict["status"], verdict["statistics"]["canary"]["candidate_errors"]) == ("fail", 0)
    assert "40 streamed golden requests, 40 errors" in newest(watched, "rollback_started").reason
    assert streams.is_stopped


async def test_a_fail_is_not_waited_for_until_the_bake_is_over(release_run: ReleaseRun, live: Live) -> None:
    """Evidence by streams ends a step as soon as it suffices."""
    lasting = replace(PLAN, steps=(PLAN.steps[0].model_copy(update={"bake_s": 60.0}),), max_bake_s=60.0)
    watched, _, _ = watch(
        release_run, live(), HEALTHY, plan=lasting, streams=StreamsDouble((20, 0), (20, 20))
    )
    assert await watched.run() == "roll_back"
    assert len(judged(watched)) <= 6


async def test_good_answers_inside_streams_let_a_step_pass(release_run: ReleaseRun, live: Live) -> None:
    """The pass names them, and none of them counts as a user's."""
    watched, _, _ = watch(release_run, live(), HEALTHY, streams=StreamsDouble((20, 0), (20, 0)))
    assert await watched.run() == "advance"
    assert "streamed golden requests, 0 errors" in newest(watched, "step_finished").reason
    windows = [event.data.verdict["window"] for event in judged(watched)]
    users = sum(one["candidate"]["requests"] for one in windows if one["source"] == "users")
    assert newest(watched, "step_finished").candidate_requests == users


@pytest.mark.parametrize(
    "streams",
    [
        StreamsDouble((0, 0), (0, 0), "the candidate has no URL of its own"),
        StreamsDouble((20, 20), (20, 0), "stable answers none"),
        StreamsDouble((20, 0), (0, 0), "the candidate has answered none yet"),
    ],
    ids=["nobody is asked", "stable fails them", "the candidate hangs"],
)
async def test_a_step_without_streamed_answers_never_passes(
    release_run: ReleaseRun, live: Live, streams: StreamsDouble
) -> None:
    """Users look well, nobody has read what their streams hold: it ends as one that could not be judged."""
    model = live()
    watched, _, _ = watch(release_run, model, HEALTHY, streams=streams)
    assert await watched.run() == "roll_back"
    assert model.share(CANDIDATE_URI) == 0
    assert newest(watched, "window_judged").verdict["status"] == "inconclusive"
    assert streams.obstacle in newest(watched, "rollback_started").reason


async def test_while_it_is_not_known_whether_the_model_streams_no_step_ends_well(
    release_run: ReleaseRun, live: Live
) -> None:
    """A store that does not tell the configuration holds the end of the step up, and nothing else."""
    streams = StreamsDouble()
    streams.is_told = False
    watched, _, _ = watch(release_run, live(), HEALTHY, streams=streams)
    running = asyncio.create_task(watched.run())
    await until(lambda: watched.elapsed_s > 3 * PLAN.steps[0].bake_s)
    assert "step_finished" not in kinds(watched)
    streams.is_told = True
    assert await running == "advance"


async def test_streams_fail_a_candidate_also_while_the_metrics_are_away(
    release_run: ReleaseRun, live: Live
) -> None:
    """What was read in answers is no less true because nobody counts users."""
    watched, _, metrics = watch(
        release_run,
        live(),
        HEALTHY,
        plan=replace(PLAN, max_no_data_windows=50),
        streams=StreamsDouble((20, 0), (20, 20)),
    )
    metrics.away = True
    assert await watched.run() == "roll_back"
    assert newest(watched, "window_judged").verdict["status"] == "fail"


async def test_good_streams_do_not_stand_for_metrics_that_are_away(
    release_run: ReleaseRun, live: Live
) -> None:
    """Windows without data end the step as ever, whatever streams say beside them."""
    watched, _, metrics = watch(release_run, live(), HEALTHY, streams=StreamsDouble((20, 0), (20, 0)))
    metrics.away = True
    assert await watched.run() == "roll_back"
    users = [
        event for event in judged(watched) if (event.data.verdict["window"] or {}).get("source") != "stream"
    ]
    assert len(users) == PLAN.max_no_data_windows
    assert all(has_no_data(event) for event in users)
