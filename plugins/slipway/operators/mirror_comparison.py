"""Mirror comparison: a pod sends copies of users' requests to stable and candidate, and compares the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from slipway.extra_links import EVIDENCE_LINKS
from slipway.failures import airflow_failures
from slipway.hooks.ingress import IngressHook
from slipway.hooks.mirror_comparison import MirrorComparisonHook
from slipway.operators.base import recorded_stage
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.staging import MANIFEST_TEMPLATE
from slipway.pods.description import ReleasePod
from slipway.release_run import ReleaseRun
from slipway_core.errors import MirrorInconclusiveError
from slipway_core.gates.mirror_comparison import (
    MirrorLimits,
    MirrorReport,
    MirrorVerdict,
    judge_mirror,
    mirror_evidence,
    mirror_limits,
    not_compared,
    require_mirror,
)
from slipway_core.reports.mirror_page import render_mirror_html
from slipway_core.spec.release_file import MirrorComparison
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context

PREVIEW_TEMPLATE = "{{ ti.xcom_pull(task_ids='rollout.show_candidate') | tojson }}"
# By which a Service finds the pod, and the router the Service.
MIRROR_LABEL = "slipway.dev/mirror"
# That nothing could be compared is in the record with its reason; where it is required, it is a refusal.
_LEAVES_OUT = (MirrorInconclusiveError,)


class Preview(BaseModel):
    """Where the candidate is shown before its first percent: addresses that lead to one revision alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    candidate_url: str = ""
    stable_url: str = ""


class RunMirrorComparisonOperator(ReleasePodOperator):
    """Run the mirror comparison in a pod until it has compared enough, and check its report against the limits.

    No user was led to the candidate: a refusal needs no rollback of traffic. Passes at once where the release
    file has no ``rollout.mirror_comparison``, and where the candidate is not shown, as a model's first version is not.

    :param preview: what the task that shows the candidate returned (templated).
    :param manifest_sha256: digest of the candidate's manifest, as it was staged (templated).
    :param ingress_conn_id: the way to the revisions' own hosts, see `IngressHook`.
    :param mirror_conn_id: where the pod listens, see `MirrorComparisonHook`.
    """

    template_fields: Sequence[str] = ("preview", "manifest_sha256", *ReleasePodOperator.template_fields)
    evidence_file = "mirror.html"
    operator_extra_links = EVIDENCE_LINKS

    def __init__(
        self,
        *,
        preview: str = PREVIEW_TEMPLATE,
        manifest_sha256: str = MANIFEST_TEMPLATE,
        ingress_conn_id: str = IngressHook.default_conn_name,
        mirror_conn_id: str = MirrorComparisonHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.preview = preview
        self.manifest_sha256 = manifest_sha256
        self.ingress_conn_id = ingress_conn_id
        self.mirror_conn_id = mirror_conn_id

    def execute(self, context: Context) -> Any:
        """Start the pod and wait for it, where the release asks for it."""
        release_run = self.release_run
        if release_run.spec.rollout.mirror_comparison is None:
            self.log.info("the release asks for no comparison of mirrored requests")
            return
        shown = self._shown()
        if shown is None or release_run.stable is None:
            self.log.info("no candidate is running next to a stable version: nothing to compare")
            return
        if not (shown.candidate_url and shown.stable_url):
            why = "the routes give the revisions no separate addresses"
            stage = recorded_stage(
                self.record, "mirror", leaves_out=_LEAVES_OUT, manifest_sha256=self.manifest_sha256
            )
            with airflow_failures(self.page), stage:
                self._keep(release_run, not_compared(why), None)
        else:
            super().execute(context)

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the comparer's pod, which a Service finds by the model's name."""
        return ReleasePod(
            kind="mirror",
            stage="mirror",
            settings=_settings(release_run),
            command=lambda: self._command(release_run),
            result_key=f"{self._prefix(release_run)}{RESULT_FILE}",
            manifest_sha256=self.manifest_sha256,
            labels={MIRROR_LABEL: release_run.model},
            ports=self._ports,
            leaves_out=_LEAVES_OUT,
        )

    def _ports(self) -> dict[str, int]:
        listening = MirrorComparisonHook(self.mirror_conn_id).listening()
        return {"http": listening.port, "grpc": listening.grpc_port}

    def _command(self, release_run: ReleaseRun) -> list[str]:
        """Return the program, both versions' own addresses, the tolerances and where to listen."""
        mirror, limits, shown = _settings(release_run), self._limits(release_run), self._shown()
        assert shown is not None  # noqa: S101  execute has looked
        ingress = IngressHook(self.ingress_conn_id)
        listening = MirrorComparisonHook(self.mirror_conn_id).listening()
        stable, candidate = ingress.endpoint(shown.stable_url), ingress.endpoint(shown.candidate_url)
        return [
            "mirror_comparison.py",
            "--model",
            release_run.model,
            "--stable-url",
            stable.base_url,
            "--stable-host",
            stable.host,
            "--candidate-url",
            candidate.base_url,
            "--candidate-host",
            candidate.host,
            "--abs-tolerance",
            str(limits.abs_tolerance),
            "--rel-tolerance",
            str(limits.rel_tolerance),
            "--class-output",
            limits.class_output,
            "--host",
            listening.host,
            "--port",
            str(listening.port),
            "--grpc-port",
            str(listening.grpc_port),
            "--requests",
            str(mirror.requests),
            "--timeout-s",
            str(mirror.timeout_s),
            "--concurrency",
            str(mirror.concurrency),
            "--destination",
            release_run.uri(self._prefix(release_run)),
        ]

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Check the report against the release file's limits."""
        report = MirrorReport.from_json(result)
        self._keep(release_run, judge_mirror(report, self._limits(release_run)), report)

    def _keep(self, release_run: ReleaseRun, verdict: MirrorVerdict, report: MirrorReport | None) -> None:
        """Keep the evidence, then refuse the release, or leave the stage out, where the verdict asks for that."""
        assert release_run.stable is not None  # noqa: S101  execute has looked
        limits = self._limits(release_run)
        evidence = mirror_evidence(
            model=release_run.model,
            version=release_run.version,
            stable_version=release_run.stable.version,
            release_id=release_run.release_id,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            verdict=verdict,
            limits=limits,
            report=report,
        )
        prefix = release_run.evidence_prefix
        self.store.write_json(f"{prefix}mirror.json", evidence)
        page = render_mirror_html(evidence).encode()
        self.store.write(f"{prefix}mirror.html", page, content_type="text/html; charset=utf-8")
        self.log.info("%s: %s (%s)", verdict.status, verdict.reason, release_run.uri(f"{prefix}mirror.html"))
        require_mirror(verdict, limits, release_run.model, release_run.version)

    def _shown(self) -> Preview | None:
        """Return the addresses, or None where no candidate is shown."""
        value = json.loads(self.preview)
        return None if value is None else Preview.model_validate(value)

    def _limits(self, release_run: ReleaseRun) -> MirrorLimits:
        return mirror_limits(release_run.spec, _settings(release_run))

    @staticmethod
    def _prefix(release_run: ReleaseRun) -> str:
        return f"{release_run.evidence_prefix}mirror/"


def _settings(release_run: ReleaseRun) -> MirrorComparison:
    """Return the release file's ``rollout.mirror_comparison``."""
    mirror = release_run.spec.rollout.mirror_comparison
    assert mirror is not None  # noqa: S101  execute has looked
    return mirror
