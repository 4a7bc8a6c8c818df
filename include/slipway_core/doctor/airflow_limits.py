"""What Airflow's own options must be, for a canary's lease to outlast what Airflow does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.errors import SpecError
from slipway_core.rollout.lease_terms import require_lease_outlasts_take_over
from slipway_core.spec.release_file import ReleaseSpec


@dataclass(frozen=True)
class AirflowLimits:
    """Options of Airflow, in seconds; None: not set, or no number.

    :param triggers: how many triggers one triggerer takes.
    """

    threshold_s: float | None
    triggerer_heartbeat_s: float | None
    task_heartbeat_timeout_s: float | None
    execution_api_timeout_s: float | None
    least_heartbeat_s: float | None
    import_timeout_s: float | None
    triggers: float | None


@dataclass(frozen=True)
class _Limit:
    """What one option may be; `why` it may not be more, or less."""

    option: str
    field: str
    value: float
    is_most: bool
    why: str


_LIMITS = (
    _Limit(
        "[scheduler] task_instance_heartbeat_timeout",
        "task_heartbeat_timeout_s",
        120,
        True,
        "for so long nobody notices that a worker was killed, and no rollback begins",
    ),
    _Limit(
        "[workers] execution_api_timeout",
        "execution_api_timeout_s",
        15,
        False,
        "a report that takes longer is sent again, and the task runs again",
    ),
    _Limit(
        "[workers] min_heartbeat_interval",
        "least_heartbeat_s",
        2,
        True,
        "a deferred task whose trigger fires sooner counts as dead, and runs again",
    ),
    _Limit(
        "[core] dagbag_import_timeout",
        "import_timeout_s",
        60,
        False,
        "on a busy machine a DAG takes longer to import, and a release would lose it half-way",
    ),
)
TRIGGERS_OF_A_MODEL = 3
"""A canary's watch, a lock that is waited for, and a hold; and three sensors whatever the models."""
_SENSORS = 3


def limit_findings(limits: AirflowLimits, specs: Mapping[str, ReleaseSpec]) -> Iterator[Finding]:
    """Yield a finding for each option, and for the lease of each release file."""
    for one in _LIMITS:
        yield _limit_finding(one, getattr(limits, one.field))
    yield _triggers_finding(limits.triggers, len(specs))
    for model, spec in specs.items():
        yield _lease_finding(model, spec, limits)


def _limit_finding(limit: _Limit, found: float | None) -> Finding:
    bound = f"{limit.value:g} s or {'less' if limit.is_most else 'more'}"
    remedy = f"export AIRFLOW__{_variable(limit.option)}={limit.value:g}, for every part of Airflow"
    if found is None:
        return Finding(limit.option, Status.UNKNOWN, "it is not set here", bound, limit.why, remedy)
    is_well = found <= limit.value if limit.is_most else found >= limit.value
    if is_well:
        return fine(limit.option, f"{found:g} s")
    return Finding(limit.option, Status.WARNING, f"{found:g} s", bound, limit.why, remedy)


def _triggers_finding(capacity: float | None, models: int) -> Finding:
    option, needed = "[triggerer] capacity", _SENSORS + TRIGGERS_OF_A_MODEL * models
    remedy = f"export AIRFLOW__{_variable(option)}={needed}, or start another triggerer"
    why = "a canary whose trigger waits for its turn is not watched, and its lease runs out"
    expected = f"{needed} or more: {_SENSORS} sensors, and {TRIGGERS_OF_A_MODEL} for each of {models} models"
    if capacity is None:
        return Finding(option, Status.UNKNOWN, "it is not set here", expected, why, remedy)
    if capacity >= needed:
        return fine(option, f"{capacity:g}, of which all models at once need {needed}")
    return Finding(option, Status.WARNING, f"{capacity:g}", expected, why, remedy)


def _lease_finding(model: str, spec: ReleaseSpec, limits: AirflowLimits) -> Finding:
    what, lease_s = f"lease of {model}", spec.rollout.lease_s
    if limits.threshold_s is None or limits.triggerer_heartbeat_s is None:
        return Finding(
            what,
            Status.UNKNOWN,
            "[triggerer] triggerer_health_check_threshold or job_heartbeat_sec is not set here",
            remedy="see docs/settings.md, Airflow's own options",
        )
    try:
        require_lease_outlasts_take_over(lease_s, limits.threshold_s, limits.triggerer_heartbeat_s)
    except SpecError as error:
        return Finding(
            what, Status.FAILED, error.in_short(), error.expected or "", error.what, error.remedy or ""
        )
    return fine(what, f"{lease_s:g} s outlast a triggerer that dies")


def _variable(option: str) -> str:
    section, _, name = option.removeprefix("[").partition("] ")
    return f"{section}__{name}".upper()
