"""The metrics source: it answers, and shows of each model that is live what the judge needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway.doctor.services import observed_service
from slipway.metrics.source import metrics_source
from slipway_core.doctor.line import Line
from slipway_core.doctor.metrics import reading_findings, visibility_findings
from slipway_core.errors import MetricsUnavailableError
from slipway_core.spec.release_file import ReleaseSpec


@EXAMINATIONS.register
class MetricsExamination(Examination):
    """Reads the live revision of each model once, as the watch of a canary does.

    A label by which errors are told, and that no series carries, is an error of the reading itself.
    """

    name: ClassVar[str] = "metrics"
    place: ClassVar[int] = 80
    why: ClassVar[str] = (
        "a label or a bucket that is not there counts no error, and the judge passes a bad version"
    )
    limit_s: ClassVar[float] = 90.0

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield lines for each model that is live, and for what its source does not see."""
        seen = False
        for model, spec in installation.specs.items():
            observed = observed_service(installation, spec)
            revision = "" if observed is None else observed.stable_revision
            for finding in visibility_findings(model, spec):
                yield self.of_finding(finding)
            if not revision:
                continue
            seen = True
            yield from self._looked(installation, model, spec, revision)
        if not seen:
            yield self.unknown(
                "a live look",
                "no model is live, so no label and no bucket could be looked at",
                remedy="release a first version and send it requests, then `slipway doctor --only metrics`",
            )

    def _looked(
        self, installation: Installation, model: str, spec: ReleaseSpec, revision: str
    ) -> Iterator[Line]:
        what = f"metrics of {model}"
        try:
            reading = metrics_source(spec, installation.metrics_conn_id).read([revision])[revision]
        except MetricsUnavailableError as error:
            yield self.failed(
                what,
                error.in_short(),
                expected=error.expected or "",
                remedy=f"python -m slipway_core.metrics; {error.remedy or ''}".rstrip("; "),
            )
            return
        for finding in reading_findings(what, spec, reading):
            yield self.of_finding(finding)
