"""Airflow's own options, against what releases need of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from airflow.configuration import conf

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway_core.doctor.airflow_limits import AirflowLimits, limit_findings
from slipway_core.doctor.line import Line


@EXAMINATIONS.register
class AirflowOptionsExamination(Examination):
    """Reads the options as this process has them: each part of Airflow must be given the same."""

    name: ClassVar[str] = "airflow_options"
    place: ClassVar[int] = 130
    why: ClassVar[str] = "a healthy canary is ended when Airflow takes longer than its lease"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each option, and for the lease of each release file."""
        limits = AirflowLimits(
            threshold_s=_number("triggerer", "triggerer_health_check_threshold"),
            triggerer_heartbeat_s=_number("triggerer", "job_heartbeat_sec"),
            task_heartbeat_timeout_s=_number("scheduler", "task_instance_heartbeat_timeout"),
            execution_api_timeout_s=_number("workers", "execution_api_timeout"),
            least_heartbeat_s=_number("workers", "min_heartbeat_interval"),
            import_timeout_s=_number("core", "dagbag_import_timeout"),
            triggers=_number("triggerer", "capacity"),
        )
        for finding in limit_findings(limits, installation.specs):
            yield self.of_finding(finding)


def _number(section: str, option: str) -> float | None:
    try:
        return float(conf.get(section, option, fallback=""))
    except ValueError:
        return None
