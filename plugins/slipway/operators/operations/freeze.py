"""Stops the raises of a model, or of all, lets them go on, or lets one version go on all the same."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.airflow_run import triggered_by
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.operations.form import FormOperator
from slipway.operators.operations.noted_failures import noted_failures
from slipway.operators.operations.rejection import require_known_version
from slipway.read_model.keeper import keep_current
from slipway.release_context import make_store
from slipway.release_record.holds import HoldReader
from slipway.release_record.record import ReleaseRecord
from slipway.release_record.shown import shown_by_name, shown_object, shown_of, shown_under_way
from slipway.run_note import tell_act
from slipway_core.errors import InputMissingError, UserError
from slipway_core.identifiers import list_models, parse_version
from slipway_core.operations.freezes import freeze, lifted, parse_freeze
from slipway_core.operations.holds import overridden_by
from slipway_core.operations.rejection import REASON_LIMIT
from slipway_core.record.shown import SHOWN_LIMIT
from slipway_core.spec.release_file import load_model_spec
from slipway_core.spec.run_overrides import FREEZE_PARAMETERS, require_known
from slipway_core.written_numbers import counted

if TYPE_CHECKING:
    from airflow.sdk import Context


class FreezeReleasesOperator(FormOperator):
    """Writes a freeze, lifts freezes, or overrides for one version what holds it.

    What is asked for comes from the run's Params: ``action`` (``freeze``, ``thaw`` or ``override``), ``model`` (None:
    every model), ``until`` (of a freeze), ``version`` (of an override), ``reason`` and ``evidence``. Every act keeps
    who did it, the person who started the run, and what was there to read, with its digest: the page that the person
    names; of a freeze the releases under way; of an override the freezes, and the record and the pages of the version.
    A freeze holds back starts and raises, never a rollback.

    :returns: what is true now, in words.
    """

    def execute(self, context: Context) -> str:
        """Do what was asked for; a task that is run again finds done what is done.

        :raises AirflowFailException: there is nothing to lift or override, nobody knows who asks, or another person
            must.
        """
        params = context["params"]
        acts = {"freeze": self._freeze, "thaw": self._thaw, "override": self._override}
        with noted_failures(context):
            require_known(params, FREEZE_PARAMETERS)
            summary = acts[str(params["action"])](context, params)
            if (model := _model(params)) is not None:
                version = params.get("version")
                changed = [] if version is None else [parse_version(version)]
                keep_current(self._store(model).with_answer_limit, model, changed)
        self.log.info(summary)
        tell_act(context, params.get("model"), summary)
        return summary

    def _store(self, model: str | None) -> ModelStoreHook:
        """Return the bucket, encrypted as the model's release file says; for every model, as the connection says."""
        if model is None:
            return ModelStoreHook(self.bucket, self.aws_conn_id)
        return make_store(self.bucket, load_model_spec(Path(self.releases_dir), model), self.aws_conn_id)

    def _freeze(self, context: Context, params: Any) -> str:
        model = _model(params)
        store, until = self._store(model), _moment(params.get("until"))
        frozen = list_models(Path(self.releases_dir)) if model is None else [model]
        named = shown_by_name(store, params.get("evidence"))
        key, content = freeze(
            model,
            who=triggered_by(context),
            now=datetime.now(UTC),
            until=until,
            reason=str(params["reason"]),
            run_id=context["run_id"],
            shown=(named + shown_under_way(store, frozen))[:SHOWN_LIMIT],
        )
        if not store.write_once(key, content):
            content = store.require(key, remedy="the freeze was written by an earlier try of this task")
        return parse_freeze(content, key).sentence

    def _thaw(self, context: Context, params: Any) -> str:
        model, now = _model(params), datetime.now(UTC)
        store = self._store(model)
        found = HoldReader(store, model or "", ()).freezes(model, now)
        if not found:
            raise InputMissingError(
                f"there is no freeze of {_named(model)} to lift",
                expected="a freeze that has neither ended nor been lifted",
                found="none",
                remedy="check whether it is a freeze of every model, or of one",
            )
        named = shown_by_name(store, params.get("evidence"))
        for one in found:
            key, content = lifted(
                one,
                who=triggered_by(context),
                now=now,
                reason=str(params["reason"])[:REASON_LIMIT],
                shown=named,
            )
            store.write_once(key, content)
        what = "Freeze" if len(found) == 1 else counted(len(found), "freeze")
        return f"{what} of {_named(model)} lifted: {'; '.join(one.sentence for one in found)}"

    def _override(self, context: Context, params: Any) -> str:
        model = _model(params)
        if model is None or params.get("version") is None:
            raise UserError(
                "an override is for one version",
                expected="a model and a version",
                found="none",
                remedy="name both",
            )
        spec, version = load_model_spec(Path(self.releases_dir), model), parse_version(params["version"])
        store = self._store(model)
        causes = HoldReader(store, model, spec.rollout.release_windows).causes(datetime.now(UTC))
        record = ReleaseRecord(store, model, version, context["run_id"])
        state = record.state() if record.started() else None
        freezes = [shown_object(store, cause.key) for cause in causes if cause.key is not None]
        named = shown_by_name(store, params.get("evidence"))
        shown = (*named, *shown_of(store, record.events()), *freezes)[:SHOWN_LIMIT]
        events = overridden_by(triggered_by(context), str(params["reason"]), causes, shown=shown)
        if state is None:
            require_known_version(store, model, version)
        given = set() if state is None else {(one.by, one.hold_sha256) for one in state.overrides}
        for event in events:
            if (event.by, event.hold_sha256) not in given:
                record.append(event)
        holds = "; ".join(event.hold for event in events)
        return f"version {version} of {model!r} continues despite the hold, overridden by {events[0].by}: {holds}"


def _model(params: Any) -> str | None:
    return None if params.get("model") is None else str(params["model"])


def _named(model: str | None) -> str:
    return "every model" if model is None else repr(model)


def _moment(value: object) -> datetime:
    """Return the moment that a form gives.

    :raises UserError: it is invalid, or has no time zone.
    """
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UserError(
            "a freeze must have an end",
            expected="a time with its time zone, such as 2026-12-28T08:00:00+01:00",
            found=repr(value)[:100],
            remedy="fill in `until`",
        )
    return moment
