"""What the steps of a release share: their parts, their stage in the record, and how failures are reported."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput, TaskDeferred

from slipway.extra_links import RELEASE_LINK, evidence_address
from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID
from slipway.release_context import Connections, ReleaseContext
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import RELEASE_RUN_TEMPLATE, ReleaseRun
from slipway_core.errors import (
    GateInconclusiveError,
    GateRefusedError,
    SlipwayError,
    VersionDeclinedError,
)
from slipway_core.record.kinds import StageFinished, StageStarted

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReleaseStep:
    """Mixed into an operator: the parts that it works with.

    :param release: the release run, by default what the task ``admit`` returned (templated).
    :param aws_conn_id: the object store's connection.
    """

    release: str
    aws_conn_id: str
    evidence_file: ClassVar[str] = ""
    """What the step writes for a person to read, below the release's evidence; "": nothing of its own."""
    operator_extra_links: Collection[BaseOperatorLink] = RELEASE_LINK
    compares: ClassVar[bool] = True
    """Whether what it was handed must be what was admitted; what takes users back, or ends the record, does not ask."""

    @property
    def connections(self) -> Connections:
        """The connections that the parts are made from."""
        return Connections(aws=self.aws_conn_id)

    @cached_property
    def parts(self) -> ReleaseContext:
        """The parts; only while the task runs, when the templates have been rendered."""
        return ReleaseContext(self.release, self.connections)

    @cached_property
    def release_run(self) -> ReleaseRun:
        """The release run."""
        return self.parts.release_run

    def require_admitted(self) -> None:
        """Refuse what was not admitted: an XCom may be written by any task. Asked when the task begins and goes on.

        :raises HandedOtherwiseError: this is about another release than the record.
        """
        if self.compares:
            self.parts.require_admitted()

    def page(self) -> str:
        """Return the address of the page that shows what the step found; "" where it was given no release."""
        return evidence_address(self)

    @property
    def store(self) -> ModelStoreHook:
        """The release's bucket."""
        return self.parts.store

    @property
    def record(self) -> ReleaseRecord:
        """The release's record."""
        return self.parts.record


class ReleaseOperator(ReleaseStep, BaseOperator):
    """One step of a release. A subclass says what it does in `run`, and is not derived from again.

    :param kubernetes_conn_id: the cluster's connection, for a step that looks at, or changes, who serves the users.
    :param metrics_conn_id: where the judge's numbers come from, for a step that needs them.
    """

    template_fields: Sequence[str] = ("release",)

    def __init__(
        self,
        *,
        release: str = RELEASE_RUN_TEMPLATE,
        aws_conn_id: str = "aws_default",
        kubernetes_conn_id: str = "kubernetes_default",
        metrics_conn_id: str = DEFAULT_METRICS_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.metrics_conn_id = metrics_conn_id

    @property
    def connections(self) -> Connections:
        """The connections that the parts are made from."""
        return Connections(self.aws_conn_id, self.kubernetes_conn_id, self.metrics_conn_id)

    def execute(self, context: Context) -> Any:
        """Run the step; errors of a person's or of a gate are not tried again."""
        with airflow_failures(self.page):
            self.require_admitted()
            return self.run(context)

    def run(self, context: Context) -> Any:
        """Do the step itself."""
        raise NotImplementedError


def attempt_of(context: Context) -> int:
    """Return Airflow's number of this try of the task; it stays while the task is deferred."""
    task_instance = context.get("ti")
    return 1 if task_instance is None else int(task_instance.try_number)


@contextmanager
def recorded_stage(
    record: ReleaseRecord,
    stage: str,
    *,
    resumed: bool = False,
    goes_on: bool = False,
    leaves_out: tuple[type[SlipwayError], ...] = (),
    manifest_sha256: str | None = None,
    notes: Sequence[str] = (),
) -> Iterator[None]:
    """Write to the record that a stage begins, and how it ended.

    A task that only waits has not ended its stage; it comes back with ``resumed``. One that skips itself has found
    its work done: the stage ends as ``reused``. A gate that could not tell ends it as ``inconclusive``.

    :param goes_on: the stage has not passed yet when this has: a later task's part is to come.
    :param leaves_out: errors that end this stage as ``left_out`` and no more: the release goes on without it.
    :param manifest_sha256: for which manifest, by the digest of its bytes, the stage passes; written when it does.
    :param notes: what is said of a pass, read when the stage ends: such as what it did not look at.
    """
    if not resumed:
        record.append(StageStarted(stage=stage))
    try:
        yield
    except (TaskDeferred, TaskAwaitingInput):
        raise
    except AirflowSkipException as skipped:
        record.append(StageFinished(stage=stage, outcome="reused", reason=str(skipped)))
        raise
    except leaves_out as error:
        record.append(StageFinished(stage=stage, outcome="left_out", reason=str(error)))
        return
    except GateRefusedError as error:
        by = error.by if isinstance(error, VersionDeclinedError) else None
        record.append(StageFinished(stage=stage, outcome="refused", reason=str(error), by=by or None))
        raise
    except GateInconclusiveError as error:
        record.append(StageFinished(stage=stage, outcome="inconclusive", reason=str(error)))
        raise
    except BaseException as error:
        reason = str(error) or type(error).__name__
        record.append(StageFinished(stage=stage, outcome="failed", reason=reason))
        raise
    if not goes_on:
        noted = "; ".join(notes) or None
        record.append(
            StageFinished(stage=stage, outcome="passed", reason=noted, manifest_sha256=manifest_sha256)
        )
