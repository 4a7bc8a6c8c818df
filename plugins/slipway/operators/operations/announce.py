"""Starts what waits for a model: an asset event for what the version's record says that the run has made true."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.assets import ALL_ALIASES, alias_of, asset_of
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseOperator
from slipway.operators.lost_run import is_lost, release_of_run
from slipway.operators.operations.form import FormOperator
from slipway.release_context import make_store
from slipway.release_record.record import ReleaseRecord
from slipway_core.identifiers import parse_version
from slipway_core.record.milestones import Milestone, milestones_of
from slipway_core.spec.release_file import load_model_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

# An event is younger than its run; the clocks of two API servers may differ by less than this.
_CLOCKS_DIFFER = timedelta(hours=1)
_IDENTITY = ("model", "version", "record_event")


class AnnounceReleaseOperator(ReleaseOperator):
    """Emits asset events for what a release or a rollback has made true; a teardown, after the conclusion.

    Only the record counts: a promotion is announced where all traffic was seen at the version, a rollback where it was
    seen away from it, a rejection where it was written. What another run has undone since is not announced. A task
    that is run again finds its events in Airflow's database and emits none twice.

    :param params_name_version: whether the run's Params name the version that it is about, as those of a release do.
        Then nothing is lost where the first task's result is.
    :returns: the addresses of the assets that have an event of this run now.
    """

    compares = False  # asked in `run`, where there is something to compare

    def __init__(self, *, params_name_version: bool = True, **kwargs: Any) -> None:
        super().__init__(inlets=list(ALL_ALIASES), outlets=list(ALL_ALIASES), **kwargs)
        self.params_name_version = params_name_version

    def run(self, context: Context) -> list[str]:
        """Announce what the record says.

        :raises HandedOtherwiseError: the task was handed another release than was admitted.
        :raises RecordError: the record cannot be right.
        """
        if self.params_name_version and is_lost(self.release):
            self.release = release_of_run(context)
        else:
            self.parts.require_admitted()
        return announce(context, milestones_of(self.record.events(), self.release_run.release_id))


class AnnounceRejectionOperator(FormOperator):
    """Emits the asset event of a rejection that this run has written, unless it was lifted meanwhile.

    :returns: the addresses of the assets that have an event of this run now.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(inlets=list(ALL_ALIASES), outlets=list(ALL_ALIASES), **kwargs)

    def execute(self, context: Context) -> list[str]:
        """Announce what the record says; lifting a rejection has no event."""
        params, run_id = context["params"], context["run_id"]
        with airflow_failures():
            spec = load_model_spec(Path(self.releases_dir), str(params["model"]))
            store = make_store(self.bucket, spec, self.aws_conn_id)
            record = ReleaseRecord(store, spec.model, parse_version(params["version"]), run_id)
            return announce(context, milestones_of(record.events(), run_id) if record.started() else ())


def announce(context: Context, milestones: Sequence[Milestone]) -> list[str]:
    """Emit an event for each milestone that has none yet; return the addresses of all.

    Airflow writes the events with the success of the task, in one transaction, so a task that was killed has emitted
    nothing.

    :raises AirflowRuntimeError: Airflow cannot say which events there are.
    """
    addresses = []
    for milestone in milestones:
        asset, alias = asset_of(milestone.model, milestone.kind), alias_of(milestone.kind)
        extra = milestone.to_dict()
        addresses.append(asset.uri)
        since = context["dag_run"].run_after - _CLOCKS_DIFFER
        emitted = context["inlet_events"][alias].after(since.isoformat())
        if any(_is_same(event.extra, extra) for event in emitted):
            log.info("%s already has its event", asset.uri)
            continue
        context["outlet_events"][alias].add(asset, extra=extra)
        log.info("%s: %s", asset.uri, extra)
    if not milestones:
        log.info("nothing to announce: according to the record, the run changed nothing that still holds")
    return addresses


def _is_same(known: Any, extra: dict[str, Any]) -> bool:
    return isinstance(known, dict) and all(known.get(name) == extra[name] for name in _IDENTITY)
