"""Faults planted in a model of doctor's own: an error and a request that hangs must be counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation, Permission
from slipway.doctor.planted_model import FAIL, HANG, MODEL, WELL, ask
from slipway.doctor.planting import planted, planted_spec
from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.metrics.source import MetricsSource, metrics_source
from slipway_core.doctor.line import Line
from slipway_core.doctor.metrics import PlantedCounts, planted_findings
from slipway_core.errors import MetricsUnavailableError, SlipwayError
from slipway_core.metrics.samples import Reading, reading_delta
from slipway_core.rollout.observation import Observed
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.written_numbers import counted

_WELL, _FAILED = 5, 3
_SETTLES_S = 30.0
"""How long counts are waited for, beyond what the source lags behind."""


@EXAMINATIONS.register
class PlantedFaultsExamination(Examination):
    """Deploys the model once for each metrics source and mode, asks it by the users' way, and reads what was counted.

    No model of a user is asked or changed.
    """

    name: ClassVar[str] = "planted_faults"
    place: ClassVar[int] = 90
    why: ClassVar[str] = "a fault that is not counted is one that the judge of a canary never sees"
    limit_s: ClassVar[float] = 600.0
    needs: ClassVar[Permission | None] = Permission.PLANT

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield lines for each kind of metrics source and mode that the release files name."""
        if any(MODEL in (spec.model, spec.rollout.inference_service) for spec in installation.specs.values()):
            yield self.failed(
                "planted model",
                f"a release file is about {MODEL}",
                remedy=f"rename it: {MODEL} is doctor's own",
            )
            return
        kinds: dict[str, ReleaseSpec] = {}
        for spec in installation.specs.values():
            own = planted_spec(spec)
            kinds.setdefault(own.model_dump_json(), own)
        for own in kinds.values():
            left: list[str] = []
            what = f"{own.rollout.metrics.in_words()}, {own.rollout.deployment_mode} mode in {own.rollout.namespace}"
            try:
                with planted(installation, own, left) as observed:
                    yield from self._tried(installation, own, what, observed)
            except SlipwayError as error:
                yield self.of_error(f"planted model with {what}", error)
            for one in left:
                remedy = (
                    f"kubectl -n {own.rollout.namespace} delete isvc {MODEL}; a later --plant removes it, too"
                )
                yield self.warning("planted model", f"left: {one}", remedy=remedy)
        if not kinds:
            yield self.unknown(
                "planted model", "no release file says where and how", remedy="slipway init MODEL"
            )

    def _tried(
        self, installation: Installation, own: ReleaseSpec, what: str, observed: Observed
    ) -> Iterator[Line]:
        rollout, revision, url = own.rollout, observed.stable_revision, observed.url
        if not url:
            yield self.unknown(
                f"planted model with {what}",
                "its status tells no address",
                remedy=f"kubectl -n {rollout.namespace} describe isvc {MODEL}",
            )
            return
        endpoint = IngressHook().endpoint(url)
        source = metrics_source(own, installation.metrics_conn_id)
        # The first requests make the series, which nobody has before.
        answers = {ask(endpoint, WELL) for _ in range(_WELL)}
        if answers != {"200"}:
            found = f"good requests are answered: {', '.join(sorted(answers))}"
            yield self.failed(
                f"planted model with {what}",
                found,
                expected="200",
                remedy=f"curl -H 'Host: {endpoint.host}' {url}",
            )
            return
        before = self._read(source, revision)
        if before is None:
            yield self.failed(
                f"planted model with {what}",
                f"the metrics source does not show the revision {revision}",
                expected=counted(_WELL, "request"),
                remedy=f"python -m slipway_core.metrics --namespace {rollout.namespace} --revision {revision}",
            )
            return
        counts = self._planted(source, revision, before, endpoint)
        for finding in planted_findings(what, counts):
            yield self.of_finding(finding)

    def _planted(
        self, source: MetricsSource, revision: str, before: Reading, endpoint: Endpoint
    ) -> PlantedCounts:
        failed = [ask(endpoint, FAIL) for _ in range(_FAILED)]
        hung = ask(endpoint, HANG)
        until = time.monotonic() + source.lag_s + _SETTLES_S
        while True:
            time.sleep(source.interval_s)
            after = self._read(source, revision)
            sample = None if after is None else reading_delta(before, after.remembering(before))
            counts = PlantedCounts(
                sent_errors=len(failed),
                answered=tuple(sorted(set(failed))),
                hung=hung,
                errors=0 if sample is None else sample.errors,
                unanswered=0 if sample is None else sample.unanswered,
            )
            if counts.are_all_there or time.monotonic() > until:
                return counts

    def _read(self, source: MetricsSource, revision: str) -> Reading | None:
        """Return a reading; None: the source does not show the revision, or not yet."""
        until = time.monotonic() + source.lag_s + _SETTLES_S
        while True:
            try:
                return source.read([revision])[revision]
            except MetricsUnavailableError:
                if time.monotonic() > until:
                    return None
                time.sleep(source.interval_s)
