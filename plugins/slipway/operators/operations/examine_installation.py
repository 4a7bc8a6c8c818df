"""The task that examines the installation, and keeps what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slipway.deployment.settings import text_of
from slipway.failures import PlainFailure, airflow_failures
from slipway.operators.operations.form import FormOperator
from slipway.workflows import INSTALLATION_EXAMINATION

if TYPE_CHECKING:
    from airflow.sdk import Context


class ExamineInstallationOperator(FormOperator):
    """Examines the installation with this worker's connections and rights, and writes the report over the last one.

    What may be done besides reading comes from the run's Params, by the names of the command's options.
    """

    def execute(self, context: Context) -> str:
        """Examine it.

        :returns: how many lines have which status.
        :raises PlainFailure: a line has failed; the report is kept before.
        """
        # Imported here, as it imports every client.
        from slipway.doctor.examination import chosen_examinations
        from slipway.doctor.examining import examine
        from slipway.doctor.installation import Installation, Permission
        from slipway_core.doctor.line import Status
        from slipway_core.doctor.report import REPORT_KEY, summary

        permitted = frozenset(one for one in Permission if context["params"].get(one.value))
        with airflow_failures():
            installation = Installation(
                self.bucket,
                Path(self.releases_dir),
                text_of("SLIPWAY_INTAKE_QUEUE_URL"),
                permitted,
                aws_conn_id=self.aws_conn_id,
            )
            report = examine(
                installation,
                chosen_examinations(),
                lambda line: self.log.info("%s", line.as_text()),
                where=f"the DAG {INSTALLATION_EXAMINATION}",
            )
            installation.store().write(REPORT_KEY, report.to_bytes(), content_type="application/json")
        found = summary(report.lines)
        failed = [f"{line.what}: {line.found}" for line in report.lines if line.status is Status.FAILED]
        if failed:
            raise PlainFailure(f"{found}. {'; '.join(failed)}"[:2000])
        return found
