"""The smoke test's pod: it loads the published version on a tritonserver of its own, and a gate judges what it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slipway.extra_links import EVIDENCE_LINKS
from slipway.operators.pod import ReleasePodOperator
from slipway.pods.description import ReleasePod
from slipway.registry.registry import GOLDEN_FILE, ModelRegistry
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import repository_paths
from slipway_core.gates.smoke_test.evidence import smoke_test_evidence
from slipway_core.gates.smoke_test.judge import judge_smoke_test, require_smoke_test
from slipway_core.gates.smoke_test.report import SmokeTestReport
from slipway_core.record.requirements import SMOKE_TEST_GATE
from slipway_core.reports.smoke_test_page import render_smoke_test_html
from slipway_core.spec.release_file import ReleaseSpec, SmokeTest
from slipway_core.triton_config.staged_paths import SERVING_ROOT
from slipway_rules.pod_files import RESULT_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context


# What `PublishModelOperator` returns.
PUBLISHED_TEMPLATE = "{{ ti.xcom_pull(task_ids='prepare.publish') }}"


class RunSmokeTestOperator(ReleasePodOperator):
    """Load the published version on a Triton that runs in a pod of its own, and check the report against the limits.

    Nobody else uses that server: what a load, a warm-up or an input does to it harms nobody. The pod gets the digest
    of the manifest, and loads nothing else. Passes at once where the release file says ``smoke_test: null``.

    :param manifest_sha256: digest of the manifest as it was published (templated).
    """

    template_fields: Sequence[str] = ("manifest_sha256", *ReleasePodOperator.template_fields)
    evidence_file = "smoke_test.html"
    operator_extra_links = EVIDENCE_LINKS

    def __init__(self, *, manifest_sha256: str = PUBLISHED_TEMPLATE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.manifest_sha256 = manifest_sha256

    def execute(self, context: Context) -> Any:
        """Start the pod and wait for it, unless the release file leaves it out."""
        if self.release_run.spec.smoke_test is None:
            self.log.info("the release asks for no smoke test")
            return
        super().execute(context)

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the pod, which nobody reaches."""
        return ReleasePod(
            kind="smoke-test",
            stage=SMOKE_TEST_GATE,
            settings=_settings(release_run),
            command=lambda: self._command(release_run),
            result_key=f"{self._prefix(release_run)}{RESULT_FILE}",
            manifest_sha256=self.manifest_sha256,
        )

    def _require_signed(self, release_run: ReleaseRun) -> None:
        """Refuse what the release file's key has not signed, before a server reads any of it."""
        key = self.parts.signing_key
        if key is not None:
            registry = ModelRegistry(self.store)
            registry.require_signed(registry.require(release_run.model, release_run.version), key)

    def _command(self, release_run: ReleaseRun) -> list[str]:
        """Return the program, the version, what to ask it and for how long."""
        self._require_signed(release_run)
        test, spec = _settings(release_run), release_run.spec
        paths = repository_paths(release_run.model, release_run.version)
        return [
            "smoke_test.py",
            "--source",
            release_run.uri(paths.repository).rstrip("/"),
            "--manifest-sha256",
            self.manifest_sha256,
            "--golden",
            release_run.uri(f"{paths.root}{GOLDEN_FILE}"),
            *spec.golden.arguments(),
            *_serving_root(spec),
            "--loads",
            str(test.loads),
            "--requests",
            str(test.requests),
            "--concurrency",
            str(test.concurrency),
            "--load-timeout-s",
            str(spec.serving.load_timeout_s),
            "--request-timeout-s",
            str(test.request_timeout_s),
            "--memory-timeout-s",
            str(test.memory_timeout_s),
            "--timeout-s",
            str(test.timeout_s),
            "--abs-tolerance",
            str(spec.validation.health.abs_tolerance),
            "--rel-tolerance",
            str(spec.validation.health.rel_tolerance),
            "--destination",
            release_run.uri(self._prefix(release_run)),
        ]

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Hold the report against the release file's limits; the evidence is written whatever it says."""
        report, limits = SmokeTestReport.from_json(result), _settings(release_run)
        verdict = judge_smoke_test(report, limits)
        evidence = smoke_test_evidence(
            model=release_run.model,
            version=release_run.version,
            release_id=release_run.release_id,
            manifest_sha256=self.manifest_sha256,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            verdict=verdict,
            limits=limits,
            report=report,
        )
        prefix = release_run.evidence_prefix
        self.store.write_json(f"{prefix}smoke_test.json", evidence)
        page = render_smoke_test_html(evidence).encode()
        self.store.write(f"{prefix}smoke_test.html", page, content_type="text/html; charset=utf-8")
        for check in verdict.checks:
            self.log.info("%s: %s (%s)", check.title, check.summary, check.status)
        require_smoke_test(verdict, limits, release_run.model, release_run.version)

    @staticmethod
    def _prefix(release_run: ReleaseRun) -> str:
        return f"{release_run.evidence_prefix}smoke_test/"


def _serving_root(spec: ReleaseSpec) -> list[str]:
    """Return where else than KServe's the conversion has laid the repository for its servers."""
    roots = dict.fromkeys((SERVING_ROOT, getattr(spec.conversion, "serving_root", SERVING_ROOT)))
    return [argument for root in roots for argument in ("--serving-root", root)] if len(roots) > 1 else []


def _settings(release_run: ReleaseRun) -> SmokeTest:
    """Return the release file's ``smoke_test``."""
    test = release_run.spec.smoke_test
    assert test is not None  # noqa: S101  execute has looked
    return test
