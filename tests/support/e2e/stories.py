"""Whole releases, played as users and machines would, all at the same time; the tests read what came of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway_core.record.events import Event
from slipway_core.rollout.observation import Observed
from slipway_digit_models.training import upload_training_artifacts
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.demo.counts import Traffic
from tests.support.e2e.drift_story import drift_story
from tests.support.e2e.fleet_story import fleet_story
from tests.support.e2e.grpc_story import grpc_story
from tests.support.e2e.magika_release import upload_magika
from tests.support.e2e.operations_stories import four_eyes_story, frozen_story
from tests.support.e2e.release_files import (
    DIGITS,
    HANGING,
    MAGIKA,
    ON_CALL,
    ON_GPU,
    ONE_AT_A_TIME,
    TOLD,
    ask_for_everything,
    write_signing_key,
)
from tests.support.e2e.running_sandbox import INTAKE_DAG, RELEASE_DAG, Ended, RunningSandbox, finished
from tests.support.notifications.receivers import Received, http_receiver
from tests.support.pods.networks import train_network
from tests.support.stalled.deaf import deaf_server

RATE_RPS = 30.0
SIGNING_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# Version 1 begins and is promoted, 2 begins and is rolled back, 3 begins and is refused.
NOTICES = 6
BAD_MESSAGES = {
    "text": "no JSON at all",
    "another shape": json.dumps({"Service": "something else"}),
    "another object": json.dumps(
        {
            "Records": [
                {
                    "eventName": "ObjectCreated:Put",
                    "s3": {"bucket": {"name": "slipway"}, "object": {"key": "incoming/README.txt"}},
                }
            ]
        }
    ),
}


@dataclass(frozen=True)
class DigitsStory:
    """Version 1 by hand, 2 by its event, 3 found by the sweep while 2 was in its canary; then back to 1 by hand."""

    first: Ended
    second: Ended
    third: Ended
    traffic_after_second: Traffic
    traffic: Traffic
    second_conf: Mapping[str, Any]
    third_conf: Mapping[str, Any]
    third_waited: str | None
    service: Observed
    intake_log: str
    releases: list[str]
    by_hand: DagRun
    by_hand_events: list[Event]
    by_hand_service: Observed
    by_hand_traffic: Traffic


def digits_story(sandbox: RunningSandbox) -> DigitsStory:
    """The model of the demo, with everything that can happen to its events."""
    with sandbox.traffic(DIGITS, RATE_RPS) as clients:
        first = sandbox.release(DIGITS, 1)
        sandbox.await_answers(clients)
        for message in BAD_MESSAGES.values():
            sandbox.send_message(message)
        announce = sandbox.land(DIGITS, 2, start="automatic")
        second_id = sandbox.run_id(DIGITS, 2)
        sandbox.wait(lambda: sandbox.run(second_id), "the event of version 2 starts its release")
        announce()
        sandbox.await_event(DIGITS, 2, "weight_observed")
        sandbox.land_unheard(DIGITS, 3, recipe=3)
        sandbox.airflow.start_run(INTAKE_DAG, {})
        third_id = sandbox.run_id(DIGITS, 3)
        sandbox.wait(lambda: sandbox.run(third_id), "the sweep starts the release of version 3")
        third_waited = sandbox.wait(lambda: _admission(sandbox, third_id), "version 3 waits for its turn")
        second = sandbox.ended(DIGITS, 2, second_id)
        traffic_after_second = clients.traffic()
        announce()
        third = sandbox.ended(DIGITS, 3, third_id)
        sandbox.await_answers(clients, 4)
        sandbox.wait(lambda: _was_left_alone(sandbox) or None, "the repeated event is looked at", 120)
    service, traffic = sandbox.service(DIGITS), clients.traffic()
    assert service is not None
    with sandbox.traffic(DIGITS, RATE_RPS) as later:
        sandbox.await_answers(later)
        by_hand = sandbox.roll_back(DIGITS, 1, "labels were swapped in training")
        sandbox.await_answers(later, 4)
    by_hand_service = sandbox.service(DIGITS)
    assert by_hand_service is not None
    return DigitsStory(
        first=first,
        second=second,
        third=third,
        traffic_after_second=traffic_after_second,
        traffic=traffic,
        second_conf=sandbox.airflow.conf(RELEASE_DAG, second_id),
        third_conf=sandbox.airflow.conf(RELEASE_DAG, third_id),
        third_waited=third_waited,
        service=service,
        intake_log=sandbox.task_logs(INTAKE_DAG, "find_new_versions"),
        releases=[
            run.run_id for run in sandbox.airflow.runs(RELEASE_DAG) if re.match(rf"{DIGITS}-\d+-", run.run_id)
        ],
        by_hand=by_hand,
        by_hand_events=sandbox.events(DIGITS, 2),
        by_hand_service=by_hand_service,
        by_hand_traffic=later.traffic(),
    )


def _admission(sandbox: RunningSandbox, run_id: str) -> str | None:
    """Return the state of the run's admission once it is neither new nor at work."""
    states = {task.task_id: task.state for task in sandbox.airflow.task_runs(RELEASE_DAG, run_id)}
    return states.get("admit") if states.get("admit") in ("deferred", "success", "failed") else None


def _was_left_alone(sandbox: RunningSandbox) -> bool:
    return "version=2) starts nothing" in sandbox.task_logs(INTAKE_DAG, "find_new_versions")


@dataclass(frozen=True)
class OneAtATimeStory:
    """Version 2 is stopped by a person in its canary; 3 is refused beside it, and again, for its signature, alone.

    `notices` is what a webhook was sent meanwhile, while another receiver of the same notices hangs. `alone_log` is
    what the task logged that refused version 3, `alone_note` the note of its run.
    """

    concurrent: DagRun
    concurrent_events: list[Event]
    lock_meanwhile: Mapping[str, Any]
    second: Ended
    locks_after: list[str]
    service_after_second: Observed
    alone: Ended
    alone_log: str
    alone_note: str
    service: Observed
    traffic: Traffic
    notices: list[Received]


def one_at_a_time_story(sandbox: RunningSandbox) -> OneAtATimeStory:
    """A model whose releases never wait for each other, and whose notices people get."""
    with http_receiver() as receiver, deaf_server() as hanging:
        sandbox.airflow.make_connection(HANGING, host=f"http://{hanging}/hook", password=SIGNING_KEY)
        sandbox.airflow.make_connection(TOLD, host=f"{receiver.address}/hook", password=SIGNING_KEY)
        story = _one_at_a_time_story(sandbox)

        def all_arrived() -> bool | None:
            return len({one.headers["webhook-id"] for one in receiver.received}) >= NOTICES or None

        sandbox.wait(all_arrived, "every notice arrives", 120)
    return replace(story, notices=receiver.received)


def _one_at_a_time_story(sandbox: RunningSandbox) -> OneAtATimeStory:
    model = ONE_AT_A_TIME
    with sandbox.traffic(model, RATE_RPS) as clients:
        sandbox.release(model, 1)
        sandbox.await_answers(clients)
        sandbox.land(model, 2)
        second_id = sandbox.start(model, 2)
        sandbox.await_event(model, 2, "window_judged", candidate_requests=20)
        sandbox.land(model, 3, recipe=4)
        concurrent_id = sandbox.start(model, 3)
        concurrent = sandbox.wait(lambda: finished(sandbox.run(concurrent_id)), "the concurrent release ends")
        concurrent_events = sandbox.events(model, 3)
        lock_meanwhile = json.loads(sandbox.read(f"records/{model}/active.json"))
        sandbox.airflow.mark_failed(RELEASE_DAG, second_id)
        second = sandbox.ended(model, 2, second_id)
        locks_after = [key for key in sandbox.keys(f"records/{model}/") if key.endswith("active.json")]
        service_after_second = sandbox.service(model)
        alone = sandbox.ended(model, 3, sandbox.start(model, 3))
        sandbox.await_answers(clients, 4)
    service = sandbox.service(model)
    assert service is not None
    assert service_after_second is not None
    return OneAtATimeStory(
        concurrent=concurrent,
        concurrent_events=concurrent_events,
        lock_meanwhile=lock_meanwhile,
        second=second,
        locks_after=locks_after,
        service_after_second=service_after_second,
        alone=alone,
        alone_log=sandbox.task_logs(RELEASE_DAG, "staging.validate", alone.run.run_id),
        alone_note=sandbox.wait(
            lambda: _outcome_note(sandbox, alone.run.run_id), "the run's note tells the outcome"
        ),
        service=service,
        traffic=clients.traffic(),
        notices=[],
    )


def _outcome_note(sandbox: RunningSandbox, run_id: str) -> str | None:
    """Return a run's note once it tells that the release was refused."""
    note = sandbox.airflow.note(RELEASE_DAG, run_id)
    return note if ": refused" in note else None


@dataclass(frozen=True)
class OnCallStory:
    """In the canary of version 2 somebody takes the weight to 0 by kubectl; the next step cannot be done.

    Versions are converted twice, in precisions of which one misses its tolerance; candidates are shown before they
    get users. Version 3 is a PyTorch network, and its release file asks for everything at once: signed with `key`,
    which stable is older than. `published` has what then lies in the bucket, by its key below `models/MODEL/3/`.
    """

    second: Ended
    rough_of_second: Mapping[str, Any]
    service: Observed
    traffic: Traffic
    third: Ended
    key: Path
    published: Mapping[str, bytes]
    service_after_third: Observed
    traffic_after_third: Traffic


def on_call_story(sandbox: RunningSandbox) -> OnCallStory:
    """A model into whose canary a person reaches behind Airflow's back."""
    with sandbox.traffic(ON_CALL, RATE_RPS) as clients:
        sandbox.release(ON_CALL, 1)
        sandbox.await_answers(clients)
        sandbox.land(ON_CALL, 2)
        run_id = sandbox.start(ON_CALL, 2)
        sandbox.await_event(ON_CALL, 2, "weight_intended", weight=80)
        sandbox.patch_service(ON_CALL, {"spec": {"predictor": {"canaryTrafficPercent": 0}}})
        second = sandbox.ended(ON_CALL, 2, run_id)
        traffic, service = sandbox.await_answers(clients, 4), sandbox.service(ON_CALL)
        key = sandbox.settings.root / "signing.pem"
        write_signing_key(key)
        ask_for_everything(sandbox.releases, key)
        network = train_network(sandbox.settings.root / "network")
        sandbox.land(ON_CALL, 3, files={"model.pt": network.script, "golden.npz": network.golden})
        third = sandbox.ended(ON_CALL, 3, sandbox.start(ON_CALL, 3))
        sandbox.await_answers(clients, 4)
    service_after_third = sandbox.service(ON_CALL)
    assert service is not None
    assert service_after_third is not None
    (rough,) = (one for one in sandbox.keys(f"models/{ON_CALL}/2/") if one.endswith("/convert-rough.json"))
    prefix = f"models/{ON_CALL}/3/"
    return OnCallStory(
        second=second,
        rough_of_second=json.loads(sandbox.read(rough)),
        service=service,
        traffic=traffic,
        third=third,
        key=key,
        published={one.removeprefix(prefix): sandbox.read(one) for one in sandbox.keys(prefix)},
        service_after_third=service_after_third,
        traffic_after_third=clients.traffic(),
    )


@dataclass(frozen=True)
class OnGpuStory:
    """A model that wants a GPU which no server has."""

    first: Ended
    service: Observed | None


def on_gpu_story(sandbox: RunningSandbox) -> OnGpuStory:
    """A version that converts, is published, and then does not load."""
    upload_training_artifacts(sandbox.s3, sandbox.settings.bucket, ON_GPU, 1)
    first = sandbox.ended(ON_GPU, 1, sandbox.start(ON_GPU, 1))
    return OnGpuStory(first, sandbox.service(ON_GPU))


@dataclass(frozen=True)
class MagikaStory:
    """A model that this project did not make: a person rejects its first release, and approves a later one.

    In between it is started in vain, and the rejection is lifted.
    """

    rejected: Ended
    service_after_rejection: Observed | None
    again: Ended
    lifted: DagRun
    first: Ended
    service: Observed | None


def magika_story(sandbox: RunningSandbox) -> MagikaStory:
    """The model of the wheel magika goes live."""
    upload_magika(sandbox.s3, sandbox.settings.bucket)
    rejected, service_after_rejection = _answered(sandbox, "Reject"), sandbox.service(MAGIKA)
    again = sandbox.ended(MAGIKA, 1, sandbox.start(MAGIKA, 1, force=True))
    lifted = sandbox.unreject(MAGIKA, 1, "the person who said no has looked again")
    first = _answered(sandbox, "Approve")
    return MagikaStory(rejected, service_after_rejection, again, lifted, first, sandbox.service(MAGIKA))


def _answered(sandbox: RunningSandbox, option: str) -> Ended:
    """Release version 1 with a person in between, who gives this answer."""
    run_id = sandbox.start(MAGIKA, 1, wait_for_approval=True)
    sandbox.answer_when_asked(run_id, option)
    return sandbox.ended(MAGIKA, 1, run_id)


STORIES: Mapping[str, Callable[[RunningSandbox], Any]] = {
    "digits": digits_story,
    "one_at_a_time": one_at_a_time_story,
    "on_call": on_call_story,
    "magika": magika_story,
    "on_gpu": on_gpu_story,
    "four_eyes": four_eyes_story,
    "frozen": frozen_story,
    "drift": drift_story,
    "fleet": fleet_story,
    "by_grpc": grpc_story,
}
"""By the name of the fixture that gives what came of each."""
