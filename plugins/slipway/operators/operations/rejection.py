"""A version that shall not be released any more, and one that may be again: said by a person, with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.airflow_run import triggered_by
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.form import FormOperator
from slipway.operators.operations.noted_failures import noted_failures
from slipway.read_model.keeper import keep_current
from slipway.release_context import make_store
from slipway.release_record.record import ReleaseRecord
from slipway.release_record.shown import shown_by_name, shown_of
from slipway.run_note import tell_act
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import InputMissingError
from slipway_core.identifiers import parse_version
from slipway_core.operations.rejection import rejected_by, unrejected_by
from slipway_core.record.shown import Shown
from slipway_core.record.state import ReleaseState
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec
from slipway_core.spec.run_overrides import REJECTION_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context


class RejectVersionOperator(FormOperator):
    """Writes into a version's record that it is rejected, or that a rejection is lifted.

    No event, no scheduled scan and no person starts a rejected version, `force` or not. If its release is under way,
    that raises no further weight and rolls its users back. `model_rollback` does not go back to it by name. What is
    live stays live.

    What is asked for comes from the run's Params: ``model``, ``version``, ``action`` (``reject`` or ``unreject``),
    ``reason`` and ``evidence``. The record keeps who did it, the person who started the run, and what was there to
    read: the version's newest event, the pages of its releases and the page that the person names, with their digests.

    :returns: what is true now, in words.
    """

    def execute(self, context: Context) -> str:
        """Write the event; a task that is run again finds its own written.

        :raises AirflowFailException: there is no such version, nobody knows who asks, or another person must.
        """
        params = context["params"]
        with noted_failures(context):
            require_known(params, REJECTION_PARAMETERS)
            spec = load_model_spec(Path(self.releases_dir), str(params["model"]))
            version = parse_version(params["version"])
            store = make_store(self.bucket, spec, self.aws_conn_id)
            record = ReleaseRecord(store, spec.model, version, context["run_id"])
            summary = self._write(context, store, spec, record)
            keep_current(store.with_answer_limit, spec.model, [version])
        self.log.info(summary)
        tell_act(context, spec.model, summary)
        return summary

    def _write(
        self, context: Context, store: ModelStoreHook, spec: ReleaseSpec, record: ReleaseRecord
    ) -> str:
        params, who = context["params"], triggered_by(context)
        version = parse_version(params["version"])
        state = record.state() if record.started() else None
        name = f"version {version} of {spec.model!r}"
        if params["action"] == "unreject":
            if _is_lifted_by_this_run(record, state):
                return f"{name} is no longer rejected"
            by_other = spec.rollout.approval.by_other
            shown = _shown(store, record, params)
            record.append(unrejected_by(who, str(params["reason"]), state, by_other=by_other, shown=shown))
            return f"{name} is no longer rejected; a version that has had users is released again only with `force`"
        if state is None:
            require_known_version(store, spec.model, version)
        elif state.rejection is not None:
            return f"{name} is rejected already: {state.rejection.sentence}"
        record.append(rejected_by(who, str(params["reason"]), shown=_shown(store, record, params)))
        return f"{name} is rejected; what is live stays live (`model_rollback` brings users back from it)"


def _shown(store: ModelStoreHook, record: ReleaseRecord, params: Any) -> tuple[Shown, ...]:
    return shown_by_name(store, params.get("evidence")) + shown_of(store, record.events())


def _is_lifted_by_this_run(record: ReleaseRecord, state: ReleaseState | None) -> bool:
    """Return whether an earlier try of this task has written the event."""
    return (
        state is not None
        and state.rejection is None
        and any(
            event.kind == "version_unrejected" and event.release_id == record.release_id
            for event in record.events()
        )
    )


def require_known_version(store: ModelStoreHook, model: str, version: int) -> None:
    """Refuse a number under which nothing lies: a typing error would reject what may come one day.

    :raises InputMissingError: nothing was ever uploaded, published or recorded under it.
    """
    paths = repository_paths(model, version)
    if any(store.entries(prefix, most=1) for prefix in (paths.incoming, paths.root)):
        return
    raise InputMissingError(
        f"there is no version {version} of {model!r}",
        expected=f"objects below {paths.incoming} or {paths.root}",
        found="nothing",
        remedy="check the version",
    )
