"""`on_drift: roll_back`: names the rollbacks that findings ask for, once each, and writes them into the findings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slipway.failures import PlainFailure
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.base import RevalidationOperator
from slipway.operators.revalidation.finding_book import FindingBook
from slipway.operators.revalidation.live_look import LiveLook
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import signing_key_of
from slipway.registry.verification import verify_version
from slipway_core.errors import SlipwayError, TransientError
from slipway_core.operations.layout import revalidation_report_key
from slipway_core.operations.revalidation.findings import Finding, RollbackStart
from slipway_core.operations.revalidation.report import ModelReport, clipped
from slipway_core.operations.revalidation.way_back import (
    asking_for_rollback,
    rollback_reason,
    rollback_run_id,
)
from slipway_core.permission.admission import restore_refusal
from slipway_core.spec.release_file import ReleaseSpec

if TYPE_CHECKING:
    from airflow.sdk import Context


class NameRollbacksOperator(RevalidationOperator):
    """Lists the rollbacks that `on_drift: roll_back` asks for, where the version before is good.

    Good is a version that its record shows promoted and not rejected, and whose files are what was published;
    `model_rollback` asks that again, and tries the version on staging. Nothing is listed while a release is under way.
    Each rollback is written into its findings before it is listed, with the id of its run: it is started once.

    :param models: the names of the models, as JSON (templated).
    :returns: one mapping a rollback, as `TriggerDagRunOperator.expand_kwargs` takes it.
    """

    template_fields: Sequence[str] = ("bucket", "models")

    def __init__(self, *, models: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.models = models

    def run(self, context: Context) -> list[dict[str, Any]]:
        """Ask each model; one that cannot be asked stops no other.

        :raises PlainFailure: one cannot be asked, and none is to be rolled back.
        :raises TransientError: so it is for now.
        """
        named, errors = list[dict[str, Any]](), list[SlipwayError]()
        for model in json.loads(self.models) or ():
            try:
                named += self._of_model(context, model)
            except SlipwayError as error:
                self.log.warning("it is unknown whether %s should be rolled back: %s", model, error)
                errors.append(error)
        if errors and not named:
            lasting = next((error for error in errors if isinstance(error, TransientError)), None)
            raise lasting or PlainFailure("; ".join(map(str, errors)))
        return named

    def _of_model(self, context: Context, model: str) -> list[dict[str, Any]]:
        spec = self.spec_of(model)
        if spec.revalidation.on_drift != "roll_back":
            return []
        store, run_id = self.store_of(spec), context["run_id"]
        key = revalidation_report_key(run_id, model)
        content = store.read(key, most_bytes=ModelReport.limit_bytes)
        if content is None:
            return []
        report, book = ModelReport.from_bytes(content, store.uri(key)), FindingBook(store, model)
        asking = asking_for_rollback(book.all().values(), report, spec.revalidation.on_drift)
        if not asking or report.version is None:
            return []
        look = LiveLook(store, spec, context, kubernetes_conn_id=self.kubernetes_conn_id)
        live = look.live()
        if (live.standing, live.version) != ("checked", report.version):
            return self._left(
                book, asking, report, f"it has changed in the meantime: {live.why or live.version}"
            )
        before, refusal = self._before(spec, store, look, report.version)
        if before is None or refusal:
            return self._left(book, asking, report, refusal)
        rollback = rollback_run_id(model, report.version, asking)
        start = RollbackStart(at=datetime.now(UTC), run=rollback, to_version=before, by_run=run_id)
        self._note(book, asking, report, {"rollback": start, "not_rolled_back": ""})
        self.log.warning("%s goes back to version %s: run %s of model_rollback", model, before, rollback)
        reason = rollback_reason(asking, run_id)
        return [
            {
                "trigger_run_id": rollback,
                "conf": {"model": model, "version": before, "leave": report.version, "reason": reason},
            }
        ]

    def _before(
        self, spec: ReleaseSpec, store: ModelStoreHook, look: LiveLook, live: int
    ) -> tuple[int | None, str]:
        """Return the version that was live before, and why nobody may be led to it; "" where it is good."""
        recorded = look.recorded()
        before = recorded.history.before
        if recorded.history.live != live or before is None or before >= live:
            return None, "the records name no older version that was live before"
        _, digest = ModelRegistry(store).require_with_digest(spec.model, before)
        refusal = restore_refusal(recorded.states[before], manifest_sha256=digest)
        if refusal is not None:
            return before, str(refusal)
        found = verify_version(store, spec.model, before, signing_key_of(spec))
        return (
            before,
            f"version {before} has changed since it was published, too: {found[0]}" if found else "",
        )

    def _left(
        self, book: FindingBook, asking: Sequence[Finding], report: ModelReport, why: str
    ) -> list[dict[str, Any]]:
        self.log.warning("%s is not rolled back: %s", report.model, why)
        self._note(book, asking, report, {"not_rolled_back": clipped(why)})
        return []

    @staticmethod
    def _note(
        book: FindingBook, asking: Sequence[Finding], report: ModelReport, fields: Mapping[str, Any]
    ) -> None:
        """Write into the findings what becomes of them, but into none that somebody has closed meanwhile."""
        names = {one.name for one in asking}

        def noted(known: Mapping[str, Finding]) -> dict[str, Finding]:
            return {
                name: one.model_copy(update=dict(fields))
                for name, one in known.items()
                if name in names
                and one.is_open
                and (one.rollback is None or one.rollback.by_run != report.run)
            }

        book.change(noted)
