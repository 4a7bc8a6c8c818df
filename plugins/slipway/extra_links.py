"""Links beside a task in Airflow's UI: to its evidence, and to the release's page.

Airflow asks for them in the task's own process, each time the task ends or begins to wait. A link is made of names that
were checked, never of a text that an XCom or an object holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from slipway.page_addresses import evidence_page, release_page, report_page
from slipway.rollback_address import RollbackAddress
from slipway_core.bucket_layout import evidence_prefix, repository_paths

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


def release_address(task: Any) -> str:
    """Return the address of the page of the release that a task works on; "" where the task was given none."""
    address = _address(task)
    return "" if address is None else release_page(address.model, address.version)


def evidence_address(task: Any) -> str:
    """Return the address of what a task writes as its evidence; of one that writes none, the release's page.

    :param task: it may say `evidence_file`, the name below the release's evidence.
    """
    address, name = _address(task), getattr(task, "evidence_file", "")
    if address is None or not name:
        return release_address(task)
    folder = evidence_prefix(address.model, address.version, address.release_id)
    below = repository_paths(address.model, address.version).evidence
    return evidence_page(address.model, address.version, f"{folder.removeprefix(below)}{name}")


def report_address(task: Any, run_id: str) -> str:
    """Return the address of the page that a task of `repository_gc` or `model_revalidation` writes.

    :param task: it says `report`: the kind of run, and the page's name in the run's folder, in which `MODEL` stands for
        the task's own.
    """
    kind, name = task.report
    return report_page(kind, run_id, name.replace("MODEL", str(getattr(task, "model", ""))))


def _address(task: Any) -> RollbackAddress | None:
    """Return which release a task works on; None: it has not begun, or what it was given is no release run."""
    try:
        address = RollbackAddress.parse(task.release)
        repository_paths(address.model, address.version)
    except Exception:  # a link is worth no failure
        return None
    return address


class EvidenceLink(BaseOperatorLink):
    """To what the task has written as evidence."""

    name = "Evidence"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address."""
        return evidence_address(operator)


class ReleaseLink(BaseOperatorLink):
    """To the page of the release, which is live while it runs."""

    name = "Release page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address."""
        return release_address(operator)


class ReportLink(BaseOperatorLink):
    """To the page that a run of `repository_gc` or `model_revalidation` has written."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address."""
        return report_address(operator, ti_key.run_id)


RELEASE_LINK: tuple[BaseOperatorLink, ...] = (ReleaseLink(),)
REPORT_LINK: tuple[BaseOperatorLink, ...] = (ReportLink(),)
EVIDENCE_LINKS: tuple[BaseOperatorLink, ...] = (ReleaseLink(), EvidenceLink())
