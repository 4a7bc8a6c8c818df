"""The tasks of the watch over fleets: which there are, and whether the servers of each serve the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowSkipException

from include.model_release.errors import ReleaseInProgressError, ServerUnavailableError
from include.model_release.fleet.fleet_file import list_fleets
from include.model_release.fleet.parity import Parity
from slipway.failures import airflow_failures
from slipway.fleet.context import FleetContext, fleets_dir, members_of
from slipway.fleet.release import settle_fleet
from slipway.fleet.status import parity_now
from slipway.hooks.triton_client.caller import run
from slipway.operators.triton.fleet_release import FleetOperator, is_under_way, require_settled, state_of

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

    :param release_dag_id: the DAG that releases to fleets.
    :returns: what each server serves (`include.model_release.fleet.parity.Parity`).
    """

    template_fields: Sequence[str] = ("bucket", "fleet")
    operator_extra_links: Collection[BaseOperatorLink] = ()  # it is about no version

    def __init__(self, *, release_dag_id: str = "fleet_release", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release_dag_id = release_dag_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Look; skipped while a release of the fleet is under way.

        :raises ServerUnavailableError: the servers differ, or one does not answer.
        :raises AirflowFailException: a release was left open, and nobody knows whether it is still carried out.
        """
        with airflow_failures():
            parts = self.parts
            self._lead_back(context, parts)
            parity = run(parity_now(parts, members_of(parts.file)))
            self.log.info("%s", parity.model_dump_json(indent=2))
            require_agreement(parity)
        return parity.model_dump(mode="json")

    def _lead_back(self, context: Context, parts: FleetContext) -> None:
        left = run(parts.fleet_store().read()).run
        if left is None:
            return
        state = state_of(context, self.release_dag_id, left.run_id)
        if is_under_way(state):
            raise AirflowSkipException(f"{left.run_id} is under way")
        if left.phase == "drain":
            self.log.warning("%s was ended before it had unloaded what was before", left.run_id)
            return
        if state is None and left.phase != "back":
            raise ReleaseInProgressError(
                f"a release of the fleet {self.fleet!r} is open that Airflow does not know",
                expected=f"a run of {self.release_dag_id}",
                found=f"{left.run_id}, of version {left.version}, in the phase {left.phase}",
                remedy="see whether anybody carries it out; a run of fleet_release leads it back first",
            )
        outcome = run(settle_fleet(parts.way_back(left)))
        if outcome is not None:
            self.log.warning("%s was left open, and is ended now: %s", left.run_id, outcome.told)
            require_settled(outcome)


def require_agreement(parity: Parity) -> None:
    """Raise unless all servers serve the same, and what the fleet should serve.

    :raises ServerUnavailableError: it says where they differ.
    """
    if parity.agree:
        return
    raise ServerUnavailableError(
        f"the servers of the fleet {parity.fleet!r} differ",
        expected="one version, configuration and manifest on all",
        found="; ".join(parity.differences),
        remedy="release the fleet's version again by the DAG fleet_release",
    )
