"""`on_drift: roll_back`: which findings ask for the previous version, and the notice of a finding."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from slipway_core.identifiers import validate_model_name
from slipway_core.operations.notices.notice import Fact, Notice, shortened
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.operations.revalidation.report import Check, ModelReport
from slipway_core.spec.revalidation import OnDrift

# A slow answer may be the cluster's, and a version that is not live by the records needs a person.
ROLLS_BACK: frozenset[Check] = frozenset({"published", "configuration", "signature", "answers"})
_REASON_LIMIT = 500


def asking_for_rollback(
    findings: Iterable[Finding], report: ModelReport, on_drift: OnDrift
) -> tuple[Finding, ...]:
    """Return the open findings for which a rollback is to be started now, each once.

    One that this very run has started is among them: a task that is run again starts the same run again, which is one.
    What could not be checked asks for nothing.
    """
    if on_drift != "roll_back" or report.standing != "checked":
        return ()
    return tuple(
        sorted(
            (
                one
                for one in findings
                if one.is_open
                and not one.is_unchecked
                and one.check in ROLLS_BACK
                and (one.version, one.last_run) == (report.version, report.run)
                and (one.rollback is None or one.rollback.by_run == report.run)
            ),
            key=lambda one: one.name,
        )
    )


def rollback_run_id(model: str, version: int, asking: Iterable[Finding]) -> str:
    """Return the id of the run of `model_rollback` that these findings start: the same for the same findings."""
    first = min(one.opened_at or one.first_seen_at for one in asking)
    return f"revalidation-{validate_model_name(model)}-{version}-{first:%Y%m%dT%H%M%S}"


def rollback_reason(asking: Iterable[Finding], run: str) -> str:
    """Return what the record says of a rollback that revalidation starts."""
    reasons = "; ".join(f"{one.name}: {one.summary}" for one in asking)
    return shortened(f"model_revalidation ({run}) has found {reasons}", _REASON_LIMIT)


def drift_notice(
    finding: Finding, *, on_drift: OnDrift, page: str, run: str, dag_id: str, at: datetime
) -> Notice:
    """Return the notice of a finding that was opened."""
    facts = (
        Fact(name="finding", value=finding.name),
        Fact(name="check", value=finding.check),
        Fact(name="on_drift", value=on_drift),
    )
    return Notice(
        event="drift_found",
        model=finding.model,
        version=finding.version,
        at=at,
        reason=finding.summary,
        facts=facts,
        release_id=run,
        dag_id=dag_id,
        evidence=page,
        about=finding.name,
    )
