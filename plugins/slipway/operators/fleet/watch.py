"""The tasks of the watch over fleets: which there are, and whether the servers of each serve the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_triton.client.event_loop import run
from slipway.failures import airflow_failures
from slipway.fleet.context import FleetContext, fleets_dir, members_of
from slipway.fleet.release import settle_fleet
from slipway.fleet.status import parity_now
from slipway.operators.fleet.release import FleetOperator, is_under_way, state_of
from slipway.workflows import FLEET_RELEASE
from slipway_core.errors import ReleaseInProgressError, ServerUnavailableError
from slipway_core.fleet.document import RunNote
from slipway_core.fleet.fleet_file import list_fleets
from slipway_core.fleet.watch import LIMIT_BYTES, NotifiedFindings, watch_key

if TYPE_CHECKING:
    from airflow.sdk import Context


class ListFleetsOperator(BaseOperator):
    """Lists the fleets that have a file.

    :param fleets: the folder with the fleets' files; None: `SLIPWAY_FLEETS_DIR`, or the project's own.
    :returns: their names, sorted.
    """

    def __init__(self, *, fleets: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fleets = fleets

    def execute(self, context: Context) -> list[str]:
        """Look into the folder."""
        return list_fleets(fleets_dir() if self.fleets is None else Path(self.fleets))


class WatchFleetOperator(FleetOperator):
    """Asks all servers of a fleet what they serve, and leads back what an ended release could not lead back.

    A server that hung in a commit may carry it out when it goes on, hours later. Its release has ended by then, and has
    left open in the bucket what that server is to serve. The way back asks nobody. Nothing else is changed.

    What was reported is kept in the bucket: a finding fails one run, and again after a day; other runs are skipped as
    long as it lasts. So a run that fails has something new to say.

    :param release_dag_id: the DAG that releases to fleets.
    :returns: what each server serves (`slipway_core.fleet.parity.Parity`).
    """

    template_fields: Sequence[str] = ("bucket", "fleet")
    operator_extra_links: Collection[BaseOperatorLink] = ()  # it is about no version

    def __init__(self, *, release_dag_id: str = FLEET_RELEASE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release_dag_id = release_dag_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Look; skipped while a release of the fleet is under way, and where nothing is found but what is known.

        :raises ServerUnavailableError: the servers differ, one does not answer, or one has something left loaded.
        :raises AirflowFailException: a release was left open, and nobody knows whether it is still carried out.
        """
        with airflow_failures():
            parts = self.parts
            left = self._open_release(context, parts)
            found = [] if left is None or left.phase == "drain" else self._lead_back(parts, left)
            parity = run(parity_now(parts, members_of(parts.file)))
            self.log.info("%s", parity.model_dump_json(indent=2))
            found += [*parity.differences, *parity.leftovers]
            if left is not None and left.phase == "drain" and not found:
                self._end(parts, left)
            self._tell_news(parts, found, str(context["run_id"]))
        return parity.model_dump(mode="json")

    def _open_release(self, context: Context, parts: FleetContext) -> RunNote | None:
        """Return the release that nobody carries out any more, and that has not ended; None: there is none."""
        left = run(parts.fleet_store().read()).run
        if left is None:
            return None
        state = state_of(context, self.release_dag_id, left.run_id)
        if is_under_way(state):
            raise AirflowSkipException(f"{left.run_id} is under way")
        if state is None and left.phase != "back":
            raise ReleaseInProgressError(
                f"a release of the fleet {self.fleet!r} is open, but Airflow does not know it",
                expected=f"a run of {self.release_dag_id}",
                found=f"{left.run_id}, of version {left.version}, in the phase {left.phase}",
                remedy="find out whether anything is carrying it out; the next run of fleet_release rolls it back "
                "first",
            )
        return left

    def _lead_back(self, parts: FleetContext, left: RunNote) -> list[str]:
        """Lead back what a release has left open; return what is still not as it should be."""
        outcome = run(settle_fleet(parts.way_back(left)))
        if outcome is None:
            return []
        self.log.warning("%s was left open and has now been ended: %s", left.run_id, outcome.summary)
        what = f"could not be rolled back from version {left.version}"
        open_ones = [name for name, one in outcome.servers.items() if one.state in ("failed", "unreachable")]
        if outcome.outcome == "failed" and not open_ones:
            return [f"no server {what}, so none was checked"]
        return [f"{name} {what}" for name in open_ones]

    def _end(self, parts: FleetContext, left: RunNote) -> None:
        """Write down that a release has nothing left to do, unless another has begun meanwhile."""
        store = parts.fleet_store()
        document = run(store.read())
        if document.run == left:
            run(store.write(document.model_copy(update={"run": None})))
            self.log.info("%s has nothing left to do", left.run_id)

    def _tell_news(self, parts: FleetContext, found: Sequence[str], run_id: str) -> None:
        """Fail where there is something new to say, and keep that it was said.

        :raises ServerUnavailableError: there is.
        :raises AirflowSkipException: everything found was reported before.
        """
        now, key = datetime.now(UTC), watch_key(self.fleet)
        known = NotifiedFindings.from_bytes(parts.store.read(key, most_bytes=LIMIT_BYTES))
        news, kept = known.news(found, run_id, now), known.after(found, run_id, now)
        if kept != known:
            parts.store.write(key, kept.to_bytes(), content_type="application/json")
        if news:
            raise ServerUnavailableError(
                f"the servers of the fleet {self.fleet!r} are not as they should be",
                expected="one version, configuration and manifest on all, and nothing else loaded",
                found="; ".join(news),
                remedy="fix the named servers, and release the fleet's version again with the DAG {FLEET_RELEASE}",
            )
        if found:
            since = min(one.at for one in kept.notified.values())
            raise AirflowSkipException(
                f"reported before, first on {since:%Y-%m-%d %H:%M} UTC: {'; '.join(found)}"
            )
