"""What landed in S3 and was never released."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRuntimeError

from slipway.failures import SET_ASIDE_KEY, UNREADABLE_KEY, airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.intake.sweep import Look, ModelLook, look_at_models
from slipway.release_record.history import LIST_PAGES
from slipway.workflows import MODEL_RELEASE
from slipway_core.errors import UserError
from slipway_core.identifiers import list_models, validate_model_name
from slipway_core.intake import IncomingVersion, IntakeResult, message_bodies, parse_messages
from slipway_core.record.arrivals import Arrival, Kept, kept_as_json, kept_from
from slipway_core.spec.release_file import load_model_spec
from slipway_core.spec.rollout.rollout import AfterRollback
from slipway_core.written_numbers import counted

if TYPE_CHECKING:
    from airflow.sdk import Context

_KEPT_KEY = "ready_files_that_start_nothing"
_MODELS_OF_EVENTS = 50
_STARTS_OF_A_RUN = 200  # Airflow maps at most 1024 tasks
_REASONS_SHOWN = 50
_REASON_LIMIT = 500
_UNREADABLE_SHOWN = 5
_ANSWER_LIMIT_S = 10.0


class FindNewVersionsOperator(BaseOperator):
    """Lists the versions whose release shall start by itself.

    A run that messages started looks at the models that they name, and at no others. Any other run, and one that
    cannot read a part of its messages, scans all of ``incoming/``: two requests for each model where nothing is new.
    What it has learnt of ready.json files that start nothing it keeps in Airflow's state store of the asset in
    `inlets`; without it, it reads them again.

    :param bucket: the bucket (templated).
    :param release_dag_id: the DAG whose runs are started.
    :param limit_s: after this time it goes on with what it has found.
    :param releases_dir: the folder with the release files, which say whether a model goes on by itself after a
        rollback; empty, or without a file that can be read: it does not.
    :return: one mapping a version, as `TriggerDagRunOperator.expand_kwargs` takes it. The XCom ``set_aside`` names
        what starts nothing because something is wrong with it; ``unreadable_messages`` what could not be read.
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(
        self,
        *,
        bucket: str,
        aws_conn_id: str = "aws_default",
        release_dag_id: str = MODEL_RELEASE,
        limit_s: float = 180.0,
        releases_dir: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
        self.release_dag_id = release_dag_id
        self.limit_s = limit_s
        self.releases_dir = releases_dir

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Looks at what the events name, or at everything; leaves out what was started before."""
        with airflow_failures():
            store = ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=_ANSWER_LIMIT_S)
            _ = store.client  # a task may ask Airflow for a connection in its main thread only
            bodies = list(_bodies(context))
            hints = parse_messages(bodies, self.bucket)
            announced = set(hints.versions)
            found = Look(set_aside=list(hints.ignored))
            is_sweep = not bodies or _must_sweep(hints)
            self._warn_of(hints.unreadable, context)
            kept = self._kept(context)
            until_s = time.monotonic() + self.limit_s
            models = self._models(store, found) if is_sweep else sorted({each.model for each in announced})
            versions = {
                model: frozenset(each.version for each in announced if each.model == model)
                for model in models
            }
            look = ModelLook(
                store, kept, now_s=time.time(), until_s=until_s, after_rollback=self._after_rollback
            )
            found.add(look_at_models(look, versions, until_s=until_s))
            self._leave_those_without_release_file(found, announced)
            if is_sweep:
                self._keep(context, found.kept, kept)
            run_ids = self._run_ids(context, found)
            self._tell(context, found, announced - {each.incoming for each in found.arrivals})
            return [
                _trigger(incoming, run_id, is_announced=incoming in announced)
                for incoming, run_id in run_ids.items()
            ]

    def _after_rollback(self, model: str) -> AfterRollback:
        if not self.releases_dir:
            return "wait"
        try:
            return load_model_spec(Path(self.releases_dir), model).rollout.after_rollback
        except UserError as error:
            self.log.warning("it is unknown whether %s continues after a rollback: %s", model, error)
            return "wait"

    def _leave_those_without_release_file(self, found: Look, announced: Set[IncomingVersion]) -> None:
        """Set aside what a scan found of models without a release file; what an event names waits for the file.

        The file may be minutes old, and not on this worker yet: `start` looks again, and says what it waits for.
        """
        if not self.releases_dir:
            return
        known = frozenset(list_models(Path(self.releases_dir)))
        for arrival in list(found.arrivals):
            incoming = arrival.incoming
            if incoming.model not in known and incoming not in announced:
                found.arrivals.remove(arrival)
                found.set_aside.append(
                    f"version {incoming.version} of {incoming.model!r} waits for a release file: this worker has "
                    f"none. Remedy: add {incoming.model}.yaml; the next scan starts it."
                )

    def _warn_of(self, unreadable: Sequence[str], context: Context) -> None:
        """Name what could not be read of the messages, for the pages; the scan looks at what it may have named."""
        if not unreadable:
            return
        reasons = list(dict.fromkeys(reason[:_REASON_LIMIT] for reason in unreadable))[:_UNREADABLE_SHOWN]
        self.log.info(
            "%s messages, or parts of them, cannot be read: reading all of incoming/ instead", len(unreadable)
        )
        context["ti"].xcom_push(UNREADABLE_KEY, {"number": len(unreadable), "reasons": reasons})

    @staticmethod
    def _models(store: ModelStoreHook, found: Look) -> list[str]:
        """The models with a folder in ``incoming/``, shuffled: a scan that is cut short ends elsewhere each time."""
        page = store.listing("incoming/", delimiter="/", pages=LIST_PAGES)
        strays = [entry.key for entry in page.objects if entry.key != "incoming/"]
        models: list[str] = []
        for folder in page.folders:
            try:
                models.append(validate_model_name(folder.removeprefix("incoming/").removesuffix("/")))
            except UserError:
                strays.append(folder)
        found.set_aside += [f"{stray!r} belongs to no model: expected incoming/MODEL/…" for stray in strays]
        if not page.is_whole:
            found.set_aside.append("incoming/ has more in it than is listed.")
        random.shuffle(models)
        return models

    def _kept(self, context: Context) -> dict[IncomingVersion, Kept]:
        """What earlier scans have learned; nothing if it is lost or cannot be read."""
        try:
            state = context["asset_state_store"]
            return kept_from(state.get(_KEPT_KEY), time.time())
        except (AirflowRuntimeError, KeyError, ValueError) as error:
            self.log.info("nothing is known about earlier scans (%s): reading every ready.json", error)
            return {}

    def _keep(
        self, context: Context, kept: Mapping[IncomingVersion, Kept], known: Mapping[IncomingVersion, Kept]
    ) -> None:
        if kept == known:
            return
        try:
            context["asset_state_store"].set(_KEPT_KEY, kept_as_json(kept))
        except (AirflowRuntimeError, KeyError, ValueError) as error:
            self.log.info("the results could not be saved (%s): the next scan reads everything again", error)

    def _run_ids(self, context: Context, found: Look) -> dict[IncomingVersion, str]:
        """The id under which each arrival is to be started, in order; those under way need no start."""
        run_ids: dict[IncomingVersion, str] = {}
        for number, arrival in enumerate(sorted(found.arrivals, key=lambda each: each.incoming)):
            if len(run_ids) == _STARTS_OF_A_RUN:
                found.set_aside.append(
                    f"{counted(len(found.arrivals) - number, 'more version')} will be started by the next scan."
                )
                break
            run_id = self._run_id(context, arrival, found)
            if run_id is not None:
                run_ids[arrival.incoming] = run_id
        return run_ids

    def _run_id(self, context: Context, arrival: Arrival, found: Look) -> str | None:
        """The first of the arrival's ids that no run has; None, where one is under way or both have ended."""

        def exists(run_id: str, *states: str) -> bool:
            counted = context["ti"].get_dr_count(
                dag_id=self.release_dag_id, run_ids=[run_id], states=list(states)
            )
            return counted > 0

        for run_id in arrival.run_ids:
            if exists(run_id, "queued", "running"):
                self.log.info("%s is under way: run %s", arrival.incoming, run_id)
                return None
            if not exists(run_id, "success", "failed"):
                return run_id
        found.set_aside.append(
            f"version {arrival.incoming.version} of {arrival.incoming.model!r}: the runs "
            f"{' and '.join(arrival.run_ids)} have ended without a record. Remedy: see in their logs why; then "
            "upload ready.json again, as the last object, or start the release by hand."
        )
        return None

    def _tell(self, context: Context, found: Look, silent: set[IncomingVersion]) -> None:
        """Names in the log and on the run what was set aside, and in the log what starts nothing."""
        reasons = [reason[:_REASON_LIMIT] for reason in found.set_aside[:_REASONS_SHOWN]]
        if len(found.set_aside) > len(reasons):
            reasons.append(f"and {len(found.set_aside) - len(reasons)} more")
        for reason in reasons:
            self.log.warning("ignored: %s", reason)
        context["ti"].xcom_push(SET_ASIDE_KEY, reasons)
        for incoming in sorted(silent)[:_REASONS_SHOWN]:
            self.log.info(
                "%s starts nothing: it was started before, is rejected, is released by hand, or is older than a "
                "release",
                incoming,
            )


def _trigger(incoming: IncomingVersion, run_id: str, *, is_announced: bool) -> dict[str, Any]:
    return {
        "trigger_run_id": run_id,
        "conf": {
            "model": incoming.model,
            "version": incoming.version,
            "reason": "new upload" if is_announced else "found by the scheduled scan",
        },
    }


def _must_sweep(hints: IntakeResult) -> bool:
    """Messages that cannot be read, or name more than is looked up one by one: the scan finds what they named."""
    return (
        bool(hints.unreadable)
        or not hints.is_whole
        or len({each.model for each in hints.versions}) > _MODELS_OF_EVENTS
    )


def _bodies(context: Context) -> Iterator[str]:
    """The bodies of the queue's messages behind this run; none where a schedule or a person started it."""
    events: Mapping[Any, Any] = context.get("triggering_asset_events") or {}
    for asset_events in events.values():
        for event in asset_events:
            yield from message_bodies(event.extra)
