"""A version that a person wants to keep."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.airflow_run import triggered_by
from slipway.operators.operations.form import FormOperator
from slipway.operators.operations.noted_failures import noted_failures
from slipway.read_model.keeper import keep_current
from slipway.registry.deletion import require_not_deleted
from slipway.release_context import make_store
from slipway.run_note import tell_act
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import UserError
from slipway_core.identifiers import parse_version
from slipway_core.operations.audit import AuditEntry
from slipway_core.operations.layout import audit_key
from slipway_core.operations.pins import Pin, pin_key
from slipway_core.spec.release_file import load_model_spec
from slipway_core.spec.run_overrides import PIN_PARAMETERS, require_known

if TYPE_CHECKING:
    from airflow.sdk import Context


class PinVersionOperator(FormOperator):
    """Pins a version, so that retention keeps it, or takes the pin away.

    What is asked for comes from the run's Params: ``model``, ``version``, ``action`` (``pin`` or ``unpin``) and
    ``reason``.
    """

    def execute(self, context: Context) -> str:
        """Write or remove the pin, and keep for ever who did it.

        :returns: what holds now.
        :raises AirflowFailException: the version was never published, or is deleted.
        """
        params, run_id = context["params"], context["run_id"]
        with noted_failures(context):
            require_known(params, PIN_PARAMETERS)
            spec = load_model_spec(Path(self.releases_dir), str(params["model"]))
            version = parse_version(params["version"])
            is_pin = params["action"] == "pin"
            by, reason, at = triggered_by(context), str(params["reason"])[:500], datetime.now(UTC)
            store = make_store(self.bucket, spec, self.aws_conn_id)
            paths = repository_paths(spec.model, version)
            if is_pin:
                # No manifest is read: a pin may be what keeps a damaged version for a look at it.
                require_not_deleted(store, paths)
                if not store.exists(paths.manifest):
                    raise UserError(
                        f"version {version} of {spec.model!r} is not published",
                        expected=store.uri(paths.manifest),
                        found="none",
                        remedy="check model and version",
                    )
            entry = AuditEntry(
                act="pinned" if is_pin else "unpinned",
                model=spec.model,
                version=version,
                run=run_id,
                at=at,
                by=by,
                reason=reason,
            )
            store.write_once(audit_key(spec.model, version, run_id, entry.act), entry.to_bytes())
            key = pin_key(spec.model, version)
            if is_pin:
                pin = Pin(by=(by or "somebody unknown")[:200], at=at, reason=reason, run=run_id[:500])
                store.write(key, pin.to_bytes(), content_type="application/json")
            else:
                store.delete(key)
            keep_current(store.with_answer_limit, spec.model)
            summary = f"version {version} of {spec.model} is {'pinned' if is_pin else 'no longer pinned'}"
        self.log.info(summary)
        tell_act(context, spec.model, summary)
        return summary
