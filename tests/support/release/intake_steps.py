"""What training leaves, what S3 tells of it, and a run of FindNewVersionsOperator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from structlog.testing import capture_logs

from slipway.failures import SET_ASIDE_KEY
from slipway.operators.intake.find import FindNewVersionsOperator
from slipway.release_record.record import ReleaseRecord
from slipway_core.record.kinds import EventData, ReleaseFinished, ReleaseStarted

if TYPE_CHECKING:
    from slipway.hooks.s3_store import ModelStoreHook

EVENT, SWEEP = "new upload", "found by the scheduled scan"
_RECORDED_AT = datetime(2026, 1, 2, tzinfo=UTC)


def land(store: ModelStoreHook, version: int, model: str = "digits", **ready: Any) -> str:
    """Let training leave a version; return the key of its ready.json."""
    key = f"incoming/{model}/{version}/ready.json"
    store.write(f"incoming/{model}/{version}/model.onnx", b"model")
    store.write_json(key, {"model": model, "version": version, **ready})
    return key


def notification(key: str, bucket: str, event: str = "ObjectCreated:Put") -> str:
    """Return the body of a message as S3 sends it, its key URL-quoted."""
    described = {"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/"), "size": 1}}
    return json.dumps({"Records": [{"eventName": event, "eventSource": "aws:s3", "s3": described}]})


class State(dict[str, Any]):
    """What Airflow keeps with the asset, as a task sees it; what is kept is JSON."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""
        self[key] = json.loads(json.dumps(value))


@dataclass
class Run:
    """A run of `model_intake`: the messages that started it, what Airflow keeps, and the runs of releases it knows."""

    bodies: Collection[str] = ()
    state: State = field(default_factory=State)
    ended: Collection[str] = ()
    under_way: Collection[str] = ()
    xcoms: dict[str, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    extra: Any = None

    def context(self) -> Any:
        """Return its task's context."""
        messages = [{"MessageId": str(number), "Body": body} for number, body in enumerate(self.bodies)]
        extra = self.extra or {"from_trigger": True, "payload": {"message_batch": messages}}
        events = {"incoming_model_versions": [SimpleNamespace(extra=extra)]}
        return {
            "triggering_asset_events": events if self.bodies or self.extra else {},
            "asset_state_store": self.state,
            "ti": SimpleNamespace(get_dr_count=self._count, xcom_push=self.xcoms.__setitem__),
        }

    def execute(self, store: ModelStoreHook, **options: Any) -> list[dict[str, Any]]:
        """Run the operator; keep the warnings of its log that are its own."""
        with capture_logs() as logs:
            started = FindNewVersionsOperator(task_id="find", bucket=store.bucket, **options).execute(
                self.context()
            )
        warnings = [str(entry["event"]) for entry in logs if entry["log_level"] == "warning"]
        # Airflow's own word on an operator that a test calls directly.
        self.log = [warning for warning in warnings if "outside of the Task Runner" not in warning]
        return started

    @property
    def set_aside(self) -> list[str]:
        """What a person sees on the run; the log says the same."""
        reasons: list[str] = self.xcoms[SET_ASIDE_KEY]
        assert self.log == [f"ignored: {reason}" for reason in reasons]
        return reasons

    def _count(self, *, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        assert dag_id == "model_release"
        known = {"queued": self.under_way, "failed": self.ended}
        return len({run_id for state in states for run_id in known.get(state, ()) if run_id in run_ids})


def started_by(run: Run, store: ModelStoreHook) -> list[str]:
    """Run the operator; return the ids of what shall start."""
    return [each["trigger_run_id"] for each in run.execute(store)]


def found(store: ModelStoreHook, run: Run | None = None) -> list[tuple[str, str]]:
    """Run the operator; return versions and reasons of what shall start, each under the id of its ready.json."""
    started = (run or Run()).execute(store)
    for each in started:
        model, version = each["conf"]["model"], each["conf"]["version"]
        ready = store.require(f"incoming/{model}/{version}/ready.json", remedy="land it")
        digest = hashlib.sha256(ready).hexdigest()[:8]
        assert each["trigger_run_id"] == f"{model}-{version}-{digest}"
    return [
        (f"{each['conf']['model']}-{each['conf']['version']}", each["conf"]["reason"]) for each in started
    ]


def was_started(
    store: ModelStoreHook,
    version: int,
    model: str = "digits",
    ended: Callable[[ReleaseRecord], object] | None = None,
) -> ReleaseRecord:
    """Let a release of the version have been started, and have ended as `ended` records it."""
    record = ReleaseRecord(store, model, version, f"{model}-{version}-00000000")
    record.append(ReleaseStarted(), at=_RECORDED_AT)
    if ended is not None:
        ended(record)
    return record


def ends(outcome: str, *before: EventData) -> Callable[[ReleaseRecord], object]:
    """Return what records the end of a release: events `before` it, then the outcome."""

    def record_end(record: ReleaseRecord) -> None:
        for data in before:
            record.append(data, at=_RECORDED_AT)
        record.append(ReleaseFinished(outcome=outcome, refused_by=None, reason=None), at=_RECORDED_AT)

    return record_end


def upload_again(store: ModelStoreHook, version: int, model: str = "digits", **ready: Any) -> str:
    """Let training upload the version anew, in a later second than what is recorded of it; return its key."""
    from moto.s3.models import s3_backends

    key = land(store, version, model, **ready)
    (backend,) = (
        by_region["aws"] for by_region in s3_backends.values() if store.bucket in by_region["aws"].buckets
    )
    stored = backend.get_bucket(store.bucket).keys[key]
    stored.last_modified += timedelta(seconds=2)
    return key
