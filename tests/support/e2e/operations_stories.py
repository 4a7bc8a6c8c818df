"""What holds a version back, and what takes its files away: forms that people fill in after the release day."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway_core.operations.audit import GcApproval
from slipway_core.operations.freezes import freeze
from slipway_core.operations.layout import GC_APPROVAL_KEY, gc_prefix, result_key, run_plan_key
from slipway_core.publishing.tombstone import Tombstone
from slipway_core.record.events import Event, EventWriter
from slipway_core.record.fold import fold
from slipway_core.record.kinds import Promoted, ReleaseFinished, ReleaseStarted
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.observation import Observed
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.demo.counts import Traffic
from tests.support.e2e.release_files import FOUR_EYES, FROZEN
from tests.support.e2e.running_sandbox import (
    FREEZE_DAG,
    GC_DAG,
    INTAKE_DAG,
    RELEASE_DAG,
    ROLLBACK_DAG,
    Ended,
    RunningSandbox,
    StoppedError,
    StoryError,
    finished,
)

RATE_RPS = 20.0
APPROVE = "rollout.approve"
# So many that a kill comes while they are deleted, on a fast machine too.
OLD_FILES = 1500
_OLD_VERSION = 90
_UPLOADS_AT_ONCE = 8
_KILL_LIMIT_S = 300.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class FourEyesStory:
    """Who started the release agrees to it, in vain; a colleague says no; then the version is left alone.

    `own_answer` is the record after the first answer. `by_event` and `by_sweep` are the events of the record after the
    version was announced, and after a sweep. `own_word` is the run in which the one who started the release lifts the
    rejection, `other_word` the colleague's.
    """

    own_answer: ReleaseState
    refused: Ended
    by_event: list[Event]
    by_sweep: list[Event]
    sweep: DagRun
    started_by_itself: DagRun | None
    service: Observed | None
    own_word: DagRun
    own_word_log: str
    other_word: DagRun
    lifted: ReleaseState


def four_eyes_story(sandbox: RunningSandbox) -> FourEyesStory:
    """A model to whose releases another person than who started them must agree."""
    model = FOUR_EYES
    sandbox.land(model, 1)
    run_id = sandbox.start(model, 1)
    sandbox.await_question(run_id)
    sandbox.airflow.answer(RELEASE_DAG, run_id, APPROVE, "Approve")
    sandbox.wait(
        lambda: "cannot approve it" in sandbox.task_logs(RELEASE_DAG, APPROVE, run_id) or None,
        "the agreement of who started the release is not taken",
    )
    sandbox.await_question(run_id)
    own_answer = fold(sandbox.events(model, 1))
    sandbox.colleague.answer(RELEASE_DAG, run_id, APPROVE, "Reject")
    refused = sandbox.ended(model, 1, run_id)
    looked = _looks_at_events(sandbox, model)
    sandbox.land(model, 1, start="automatic")
    sandbox.wait(lambda: _looks_at_events(sandbox, model) > looked or None, "the event is looked at")
    by_event = sandbox.events(model, 1)
    sweep = sandbox.filled_in(INTAKE_DAG, {})
    by_sweep = sandbox.events(model, 1)
    own_word = sandbox.unreject(model, 1, "it was good enough")
    other_word = sandbox.unreject(model, 1, "looked at it again", by=sandbox.colleague)
    return FourEyesStory(
        own_answer=own_answer,
        refused=refused,
        by_event=by_event,
        by_sweep=by_sweep,
        sweep=sweep,
        started_by_itself=sandbox.run(sandbox.run_id(model, 1)),
        service=sandbox.service(model),
        own_word=own_word,
        own_word_log=sandbox.task_logs("version_rejection", "write", own_word.run_id),
        other_word=other_word,
        lifted=fold(sandbox.events(model, 1)),
    )


def _looks_at_events(sandbox: RunningSandbox, model: str) -> int:
    """Return how often an event of version 1 was looked at, and started nothing."""
    line = f"model='{model}', version=1) starts nothing"
    return sandbox.task_logs(INTAKE_DAG, "find_new_versions").count(line)


@dataclass(frozen=True)
class CollectedStory:
    """The collector's dry run, and its first real run: it is killed in the middle, and goes on.

    An earlier run has begun to delete the old version, and was broken off. `left_when_killed` is how many of its files
    were there then. `before` and `after` are the keys of all other versions.
    """

    dry: DagRun
    dry_page: str
    after_dry: int
    real: DagRun
    tries: int
    left_when_killed: int
    left: list[str]
    approval: GcApproval
    plan: bytes
    page: bytes
    results: Mapping[str, Any]
    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class FrozenStory:
    """A freeze holds version 3 at its start; thawed, it goes on, and a second freeze holds it in its canary.

    In the second freeze a person takes it back. Then the files of an old version are deleted, while clients ask.
    """

    waited: str | None
    admit_log: str
    events_while_frozen: list[Event]
    thawed: DagRun
    second: Ended
    third: Ended
    frozen_until: datetime
    back: DagRun
    service: Observed
    traffic: Traffic
    collected: CollectedStory


def frozen_story(sandbox: RunningSandbox) -> FrozenStory:
    """A model that people freeze, and of which old files are deleted."""
    model = FROZEN
    with sandbox.traffic(model, RATE_RPS) as clients:
        lay_down_versions(sandbox, model)
        second = sandbox.release(model, 2, recipe=1)
        sandbox.await_answers(clients)
        dry_id = sandbox.airflow.start_run(GC_DAG, {"models": [model], "dry_run": True}).run_id
        until = datetime.now(UTC) + timedelta(hours=2)
        sandbox.filled_in(FREEZE_DAG, _form("freeze", model, until=until.isoformat()))
        sandbox.land(model, 3, recipe=2)
        third_id = sandbox.start(model, 3)
        waited = sandbox.wait(lambda: _admission(sandbox, third_id), "version 3 meets the freeze")
        while_frozen = sandbox.events(model, 3)
        thawed = sandbox.filled_in(FREEZE_DAG, _form("thaw", model), by=sandbox.colleague)
        sandbox.wait(lambda: _percent(sandbox, model) or None, "version 3 has users")
        # As where Airflow is down: the next raise is some seconds ahead, which a task may take to start.
        key, content = freeze(
            model, who="admin", now=datetime.now(UTC), until=until, reason="audit", run_id="by hand"
        )
        sandbox.s3.put_object(Bucket=sandbox.settings.bucket, Key=key, Body=content)
        sandbox.await_event(model, 3, "raise_held")
        back = sandbox.filled_in(ROLLBACK_DAG, {"model": model, "reason": "not in an audit"})
        third = sandbox.ended(model, 3, third_id)
        collected = _collected(sandbox, model, dry_id)
        sandbox.await_answers(clients, 4)
    service = sandbox.service(model)
    assert service is not None
    return FrozenStory(
        waited=waited,
        admit_log=sandbox.task_logs(RELEASE_DAG, "admit", third_id),
        events_while_frozen=while_frozen,
        thawed=thawed,
        second=second,
        third=third,
        frozen_until=until,
        back=back,
        service=service,
        traffic=clients.traffic(),
        collected=collected,
    )


def _percent(sandbox: RunningSandbox, model: str) -> int:
    service = sandbox.service(model)
    return 0 if service is None or service.canary_percent is None else service.canary_percent


def _form(action: str, model: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "model": model, "reason": "an audit", **more}


def _admission(sandbox: RunningSandbox, run_id: str) -> str | None:
    states = {task.task_id: task.state for task in sandbox.airflow.task_runs(RELEASE_DAG, run_id)}
    return states.get("admit") if states.get("admit") in ("deferred", "success", "failed") else None


def lay_down_versions(sandbox: RunningSandbox, model: str) -> None:
    """Leave two versions from before: version 1 was live, and an earlier run has begun to delete another one.

    That one has many files; only its tombstone was written.
    """
    root, bucket = f"models/{model}/{_OLD_VERSION}/", sandbox.settings.bucket
    begun = datetime.now(UTC) - timedelta(days=1)
    tombstone = Tombstone(
        model=model,
        version=_OLD_VERSION,
        begun_at=begun,
        run="broken off",
        plan_sha256="0" * 64,
        reason="rolled back, and nobody names it",
    )
    files = {f"{root}repository/{model}/{_OLD_VERSION}/part-{one:04}": b"weights" for one in range(OLD_FILES)}
    files |= {
        f"{root}manifest.json": b"{}",
        f"{root}evidence/r/release.json": b"{}",
        f"{root}deleted.json": tombstone.to_bytes(),
    }

    live = f"models/{model}/1/"
    files |= {f"{live}repository/{model}/1/model.onnx": b"weights", f"{live}manifest.json": b"{}"}
    writer, uri = EventWriter(f"{model}-1", model, 1), f"s3://{bucket}/{live}repository"
    for seq, data in enumerate(
        (ReleaseStarted(), Promoted(storage_uri=uri), ReleaseFinished(outcome="promoted")), 1
    ):
        event = writer.event(seq, begun, data)
        files[event.key] = json.dumps(event.to_document()).encode()

    def put(item: tuple[str, bytes]) -> None:
        sandbox.s3.put_object(Bucket=bucket, Key=item[0], Body=item[1])

    with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as pool:
        list(pool.map(put, files.items()))


def _collected(sandbox: RunningSandbox, model: str, dry_id: str) -> CollectedStory:
    dry = sandbox.wait(lambda: finished(sandbox.airflow.run(GC_DAG, dry_id)), f"{dry_id} ends")
    before = _others(sandbox, model)
    after_dry = len(_files(sandbox, model))
    real_id = sandbox.airflow.start_run(GC_DAG, {"models": [model], "dry_run": False}).run_id
    sandbox.await_question(real_id, dag_id=GC_DAG, task_id="approve")
    sandbox.colleague.answer(GC_DAG, real_id, "approve", "Approve")
    left_when_killed = _killed_while_deleting(sandbox, model, real_id)
    real = sandbox.wait(lambda: finished(sandbox.airflow.run(GC_DAG, real_id)), f"{real_id} ends")
    approval = GcApproval.from_bytes(sandbox.read(GC_APPROVAL_KEY), GC_APPROVAL_KEY)
    return CollectedStory(
        dry=dry,
        dry_page=sandbox.read(f"{gc_prefix(dry.run_id)}plan.html").decode(),
        after_dry=after_dry,
        real=real,
        tries=sandbox.airflow.task_tries(GC_DAG, real_id, "delete"),
        left_when_killed=left_when_killed,
        left=sandbox.keys(f"models/{model}/{_OLD_VERSION}/"),
        approval=approval,
        plan=sandbox.read(run_plan_key(real_id)),
        page=sandbox.read(f"{gc_prefix(real_id)}plan.html"),
        results=json.loads(sandbox.read(result_key(real_id, model))),
        before=before,
        after=_others(sandbox, model),
    )


def _files(sandbox: RunningSandbox, model: str) -> list[str]:
    return sandbox.keys(f"models/{model}/{_OLD_VERSION}/repository/")


def _others(sandbox: RunningSandbox, model: str) -> list[str]:
    old = f"models/{model}/{_OLD_VERSION}/"
    return [key for key in sandbox.keys(f"models/{model}/") if not key.startswith(old)]


def _killed_while_deleting(sandbox: RunningSandbox, model: str, run_id: str) -> int:
    """Kill the task's process when the first files are gone; return how many are left then."""
    pid = sandbox.wait(lambda: sandbox.airflow.task_pid(GC_DAG, run_id, "delete"), "the task `delete` runs")
    deadline = time.monotonic() + _KILL_LIMIT_S
    while len(_files(sandbox, model)) == OLD_FILES:
        if time.monotonic() > deadline:
            raise StoryError(f"{run_id} has deleted nothing in {_KILL_LIMIT_S:.0f} s")
        if sandbox.stop.wait(_LOOK_S):
            raise StoppedError("the deletion")
    os.kill(pid, signal.SIGKILL)
    return len(_files(sandbox, model))
