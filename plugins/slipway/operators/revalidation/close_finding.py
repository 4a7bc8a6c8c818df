"""A finding that a person closes, with a reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slipway.airflow_run import triggered_by
from slipway.operators.operations.noted_failures import noted_failures
from slipway.operators.revalidation.base import RevalidationOperator
from slipway.operators.revalidation.finding_book import FindingBook
from slipway.read_model.keeper import keep_current
from slipway.run_note import tell_act
from slipway_core.operations.revalidation.findings import closed_by, status_words
from slipway_core.spec.run_overrides import FINDING_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context


class CloseFindingOperator(RevalidationOperator):
    """Closes an open finding, and keeps who did it, when and why.

    What is asked for comes from the run's Params: ``model``, ``finding`` (its name, as pages show it) and ``reason``.
    It stays closed while exactly the same is seen, and opens anew when something else is.

    :returns: what holds now, in words.
    """

    def run(self, context: Context) -> str:
        """Close it; a task that is run again finds it closed.

        :raises InputMissingError: there is no such finding.
        :raises UserError: it is not open, or nobody knows who asks.
        """
        with noted_failures(context):
            summary = self._close(context)
        self.log.info(summary)
        tell_act(context, context["params"]["model"], summary)
        return summary

    def _close(self, context: Context) -> str:
        params = context["params"]
        require_known(params, FINDING_PARAMETERS)
        spec = self.spec_of(str(params["model"]))
        book, name = FindingBook(self.store_of(spec), spec.model), str(params["finding"])
        now, who = datetime.now(UTC), triggered_by(context)
        book.require(name)
        after = book.change(
            lambda known: {
                name: closed_by(
                    known[name], who=who, reason=str(params["reason"]), run=context["run_id"], now=now
                )
            }
        )
        keep_current(self.store_of(spec).with_answer_limit, spec.model)
        return f"the finding {name} of {spec.model} is {status_words(after[name])}"
