"""The tasks of a release to a fleet: lay the version in place, release it, and settle what was left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException

from airflow_provider_triton.client.event_loop import run
from slipway.airflow_run import is_missing_run, triggered_by
from slipway.failures import airflow_failures
from slipway.fleet.context import FleetContext, fleets_dir
from slipway.fleet.release import FleetRelease, release_fleet, settle_fleet
from slipway.hooks.s3_guarantees import require_guarantees
from slipway.page_addresses import release_page
from slipway.run_note import tell_fleet
from slipway_core.errors import (
    LoadRefusedError,
    ServerUnavailableError,
    SlipwayError,
    TransientError,
)
from slipway_core.fleet.outcome import FleetOutcome
from slipway_core.identifiers import parse_version

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey


class FleetVersionLink(BaseOperatorLink):
    """To the page of the version that a fleet is to serve."""

    name = "Release page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; "" where the task names no fleet and version."""
        return operator.page() if isinstance(operator, FleetOperator) else ""


class FleetOperator(BaseOperator):
    """What the tasks have in common: a fleet's name and a version, from the run's Params.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    :param fleets: the folder with the fleets' files; None: `SLIPWAY_FLEETS_DIR`, or the project's own.
    """

    template_fields: Sequence[str] = ("bucket", "fleet", "version")
    operator_extra_links: Collection[BaseOperatorLink] = (FleetVersionLink(),)

    def __init__(
        self,
        *,
        releases_dir: str,
        bucket: str,
        fleet: str = "{{ params.fleet }}",
        version: str | int = "{{ params.version }}",
        fleets: str | None = None,
        aws_conn_id: str = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.bucket = bucket
        self.fleet = fleet
        self.version = version
        self.fleets = fleets
        self.aws_conn_id = aws_conn_id

    @property
    def parts(self) -> FleetContext:
        """The parts of the fleet; only while the task runs, when the templates have been rendered."""
        folder = fleets_dir() if self.fleets is None else Path(self.fleets)
        return FleetContext(folder, Path(self.releases_dir), self.fleet, self.bucket, self.aws_conn_id)

    def page(self) -> str:
        """Return the address of the version's page; "" where the fleet's file does not say whose version it is."""
        try:
            return release_page(self.parts.file.model, self.version)
        except SlipwayError:
            return ""

    def tell(self, context: Context, text: str) -> None:
        """Write into the run's note where the release stands."""
        tell_fleet(context, self.fleet, self.version, text, self.page())

    @contextmanager
    def telling(self, context: Context, what: str) -> Iterator[None]:
        """`airflow_failures`; the run's note says why something was not done.

        :param what: was not done, in words.
        """
        with airflow_failures():
            try:
                yield
            except SlipwayError as error:
                self.tell(context, f"{what}: {error.in_short()}")
                raise


class PlaceFleetVersionOperator(FleetOperator):
    """Lays a published version where the fleet's servers find it, when users may get it.

    Run again it finds the version there, and leaves its files untouched.
    """

    def execute(self, context: Context) -> str:
        """Check, and copy; return what was done."""
        with self.telling(context, "not released"):
            version = parse_version(self.version)
            parts = self.parts
            require_guarantees(parts.store)  # what is intended for the fleet is written under conditions
            parts.require_permitted(version, triggered_by(context))
            copied = parts.place(version)
        message = f"version {version} of {parts.file.model} {'was put' if copied else 'is already'} in place"
        self.log.info(message)
        self.tell(context, "put in place")
        return message


class ReleaseToFleetOperator(FleetOperator):
    """Brings a version to all servers of a fleet, or leads all back to what they had.

    Killed and run again it goes on from what is written in the bucket and from what the servers show. Stopped, it does
    nothing more on any server: Airflow lets a task live on for seconds, in which users would get the version.

    :returns: the outcome as a mapping (`slipway_core.fleet.outcome.FleetOutcome`).
    """

    _stop: Callable[[], object] | None = None

    def on_kill(self) -> None:
        """End the release where it is; `settle`, or the next try, goes on."""
        if self._stop is not None:
            self._stop()

    def execute(self, context: Context) -> dict[str, Any]:
        """Release.

        :raises AirflowFailException: it is on no server; the log says why.
        """
        with self.telling(context, "not released"):
            release = self.parts.release(
                parse_version(self.version),
                str(context["run_id"]),
                triggered_by(context),
                lambda run_id: _is_running(context, run_id),
            )
            try:
                outcome = run(self._until_stopped(release))
            except asyncio.CancelledError:
                raise TransientError(
                    f"the release of version {self.version} to the fleet {self.fleet!r} was stopped",
                    expected="a regular end",
                    remedy="the task `settle` restores all servers; retrying this task continues the release",
                ) from None
        self.log.info("%s", outcome.model_dump_json(indent=2))
        what = "released, but not on all servers" if outcome.outcome == "committed" else "not released"
        with self.telling(context, what):
            require_committed(outcome)
        self.tell(context, outcome.summary)
        return outcome.model_dump(mode="json")

    async def _until_stopped(self, release: FleetRelease) -> FleetOutcome:
        loop, work = asyncio.get_running_loop(), asyncio.ensure_future(release_fleet(release))
        self._stop = lambda: loop.call_soon_threadsafe(work.cancel)
        try:
            return await work
        finally:
            self._stop = None


class SettleFleetOperator(FleetOperator):
    """A teardown: leads the servers back where the task before was ended in the middle, or unloads what is left.

    The way back reads the fleet's document and asks the servers. Neither the version nor its golden set is needed.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Settle; skipped where nothing was left unfinished."""
        with self.telling(context, "not settled"):
            outcome = self._settled(context)
            if outcome is None:
                raise AirflowSkipException("nothing was left unfinished")
            self.log.info("%s", outcome.model_dump_json(indent=2))
            require_settled(outcome)
            self.tell(context, f"interrupted, then settled: {outcome.summary}")
        return outcome.model_dump(mode="json")

    def _settled(self, context: Context) -> FleetOutcome | None:
        parts, run_id = self.parts, str(context["run_id"])
        left = run(parts.fleet_store().read()).run
        if left is None or left.run_id != run_id:
            return None
        if left.phase != "drain":
            return run(settle_fleet(parts.way_back(left)))
        release = parts.release(
            parse_version(self.version), run_id, triggered_by(context), lambda one: _is_running(context, one)
        )
        return run(settle_fleet(release))


def require_committed(outcome: FleetOutcome) -> None:
    """Raise unless all servers have the version.

    :raises ServerUnavailableError: one could not be led back, or is not known to have it; the next try goes on.
    :raises LoadRefusedError: each has what it had.
    """
    require_settled(outcome)
    if outcome.outcome == "committed":
        return
    raise LoadRefusedError(
        f"version {outcome.version} of {outcome.model!r} is on no server of the fleet {outcome.fleet!r}",
        expected="all servers with it, in the same state",
        found="; ".join(outcome.reasons),
        remedy="fix what is named, and release it again",
    )


def require_settled(outcome: FleetOutcome) -> None:
    """Raise where a server may have something else than it should.

    :raises ServerUnavailableError: it says which.
    """
    if outcome.outcome == "committed":
        require_whole(outcome)
        return
    open_ones = [name for name, one in outcome.servers.items() if one.state in ("failed", "unreachable")]
    if outcome.outcome != "failed" and not open_ones:
        return
    raise ServerUnavailableError(
        f"the fleet {outcome.fleet!r} could not be restored on {', '.join(open_ones) or 'any server'}",
        expected="all servers in their previous state",
        found="; ".join(outcome.reasons),
        remedy="fix the named servers; the next try of this task continues from here",
    )


def require_whole(outcome: FleetOutcome) -> None:
    """Raise where the fleet has the version, and a server that counts does not show it; the others keep it.

    :raises ServerUnavailableError: it says which.
    """
    if outcome.is_whole:
        return
    raise ServerUnavailableError(
        f"version {outcome.version} of {outcome.model!r} is now the version of the fleet {outcome.fleet!r}, but was "
        f"not seen on {', '.join(outcome.missing) or 'any server'}",
        expected="all servers with it, in the same state",
        found="; ".join(outcome.reasons),
        remedy="fix the named servers; the next try of this task, or another release of this version, updates them",
    )


def _is_running(context: Context, run_id: str) -> bool:
    """Return whether the DAG run of this id is under way."""
    return is_under_way(state_of(context, str(context["dag"].dag_id), run_id))


def is_under_way(state: str | None) -> bool:
    """Return whether a run in this state is carried out, or will be."""
    return state in ("queued", "running")


def state_of(context: Context, dag_id: str, run_id: str) -> str | None:
    """Return the state of a DAG run; None: Airflow does not know it."""
    try:
        return context["ti"].get_dagrun_state(dag_id, run_id)
    except AirflowRuntimeError as error:
        if is_missing_run(error):
            return None
        raise
