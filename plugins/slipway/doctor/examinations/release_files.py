"""The release files: they can be read, and their canaries find something at the traffic that there is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway.doctor.services import observed_service
from slipway.metrics.source import metrics_source
from slipway_core.doctor.line import Line
from slipway_core.doctor.power import power_finding
from slipway_core.errors import TransientError
from slipway_core.metrics.samples import Reading, reading_delta
from slipway_core.spec.release_file import ReleaseSpec

WATCHED_S = 10.0
"""For how long the traffic of the models is watched, all at once; longer where a source is slow."""


@EXAMINATIONS.register
class ReleaseFilesExamination(Examination):
    """Reads each file, counts the requests of some seconds, and plays bad versions to its judge at that traffic."""

    name: ClassVar[str] = "release_files"
    place: ClassVar[int] = 150
    why: ClassVar[str] = "a canary that cannot find a bad version is worse than none: people trust it"
    limit_s: ClassVar[float] = 180.0

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each file that cannot be read, then one for each canary."""
        specs = installation.specs
        for model, error in installation.unreadable.items():
            yield self.failed(
                f"release file of {model}",
                error.in_short(),
                expected=error.expected or "",
                remedy=f"slipway lint {installation.releases_dir / f'{model}.yaml'}",
            )
        if not specs and not installation.unreadable:
            yield self.warning(
                "release files",
                f"there is none in {installation.releases_dir}",
                remedy="slipway init MODEL --onnx FILE, or set SLIPWAY_RELEASES_DIR",
            )
        first: dict[str, tuple[str, Reading]] = {}
        for model, spec in specs.items():
            line = self._first_look(installation, model, spec, first)
            if line is not None:
                yield line
        if first:
            time.sleep(max(WATCHED_S, *(specs[model].rollout.metrics.timeout_s / 2 for model in first)))
        for model, (revision, before) in first.items():
            yield self._power(installation, specs[model], revision, before)

    def _first_look(
        self,
        installation: Installation,
        model: str,
        spec: ReleaseSpec,
        found: dict[str, tuple[str, Reading]],
    ) -> Line | None:
        what = f"canary of {model}"
        try:
            observed = observed_service(installation, spec)
            revision = "" if observed is None else observed.stable_revision
            if not revision:
                return self.skipped(what, "no version is live yet, and a first version has no canary")
            found[model] = revision, self._read(installation, spec, revision)
        except TransientError as error:
            return self.unknown(what, error.in_short(), remedy="slipway doctor --only metrics")
        return None

    def _power(self, installation: Installation, spec: ReleaseSpec, revision: str, before: Reading) -> Line:
        what, again = f"canary of {spec.model}", "slipway doctor --only release_files"
        try:
            after = self._read(installation, spec, revision)
            sample = reading_delta(before, after)
        except TransientError as error:
            return self.unknown(what, error.in_short(), remedy="slipway doctor --only metrics")
        seconds = after.at - before.at
        if seconds <= 0 or not sample.requests:
            return self.unknown(
                what,
                "users sent no request while it was watched",
                expected="traffic",
                remedy=f"{again}, under load",
            )
        return self.of_finding(power_finding(spec.model, spec, sample.requests / seconds))

    def _read(self, installation: Installation, spec: ReleaseSpec, revision: str) -> Reading:
        return metrics_source(spec, installation.metrics_conn_id).read([revision])[revision]
