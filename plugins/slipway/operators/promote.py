"""All traffic to the version that has proved itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from include.model_release.rollout import Promote
from slipway.operators.base import recorded_stage
from slipway.operators.traffic import TrafficOperator
from slipway.rollout_driver import first_deploy
from slipway.wheel import Wheel

if TYPE_CHECKING:
    from airflow.sdk import Context


class PromoteOperator(TrafficOperator):
    """Gives the version all traffic, sees that it has it, and says so in the record.

    It asks the record, not Airflow, whether the version has proved itself: a task that was marked as success has not.
    """

    def run(self, context: Context) -> None:
        """Promotes; a task that is run again after that does nothing.

        :raises RaiseRefusedError: the record does not show what a promotion needs.
        """
        ticket = self.ticket
        state = self.record.state()
        if (state.release_id, state.outcome) == (ticket.release_id, "promoted"):
            self.log.info("the version was promoted already")
            return
        with recorded_stage(self.record, "promote"):
            self.permit.require(100)
            wheel = Wheel(self.lease, ticket)
            if ticket.stable is None:
                turn = self.reach(first_deploy(ticket))
            else:
                turn = self.reach(Promote(ticket.storage_uri), wheel=wheel)
            traffic = dict(turn.observed.traffic) if turn.observed else {}
            self.record.append("weight_observed", weight=100, traffic=traffic)
            self.record.append(
                "promoted", storage_uri=ticket.storage_uri, manifest_sha256=state.verified_sha256
            )
            self.conceal_candidate(turn.observed)
            wheel.leave()
