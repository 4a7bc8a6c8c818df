"""All checks of one model, each made for itself: one that cannot be made stops no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property

from slipway.hooks.ingress import IngressHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.golden_asking import LiveServer, live_server
from slipway.operators.revalidation.golden_check import (
    GoldenParts,
    check_answers,
    check_latency,
    check_signature,
)
from slipway.operators.revalidation.inputs_check import check_inputs
from slipway.operators.revalidation.live_look import Live, LiveLook, Recorded
from slipway.operators.revalidation.published_check import check_configuration, check_published
from slipway.registry.registry import ModelRegistry
from slipway_core.errors import SlipwayError
from slipway_core.operations.revalidation.report import (
    Check,
    CheckResult,
    could_not_check,
    differs,
    passed,
)
from slipway_core.spec.release_file import ReleaseSpec

log = logging.getLogger(__name__)


class ModelChecks:
    """The checks of the version that is live.

    :param live: what `look` has found.
    :param run_id: the run, which is noted where a reference is kept.
    """

    def __init__(
        self, store: ModelStoreHook, spec: ReleaseSpec, look: LiveLook, live: Live, *, run_id: str
    ) -> None:
        self._store, self._spec, self._look, self._live = store, spec, look, live
        self._run_id = run_id

    def results(self) -> Iterator[CheckResult]:
        """Yield what comes of each check, in the order of the page."""
        if self._live.version is None:
            why = self._live.why
            yield differs("live", f"what is live is not a published version: {why}", [why])
            return
        version = self._live.version
        yield self._guarded("live", lambda: self._check_live(version))
        yield self._guarded("published", lambda: self._check_published(version))
        yield self._guarded("configuration", lambda: self._check_configuration(version))
        yield self._guarded("signature", lambda: check_signature(self._parts(version)))
        yield self._guarded("answers", lambda: self._check_answers(version))
        yield self._guarded("latency", lambda: self._check_latency(version))
        yield self._guarded("inputs", lambda: check_inputs(self._parts(version)))

    def _check_live(self, version: int) -> CheckResult:
        recorded = self._recorded.history.live
        if recorded == version:
            return passed("live", f"version {version} is live, as in the records")
        words = "none" if recorded is None else f"version {recorded}"
        return differs("live", f"version {version} is live, but in the records it is {words}", [words])

    def _check_published(self, version: int) -> CheckResult:
        state = self._recorded.states.get(version)
        promoted_sha256 = "" if state is None else state.promoted_sha256
        return check_published(self._store, self._spec, version, promoted_sha256)

    def _check_configuration(self, version: int) -> CheckResult:
        parts = self._parts(version)
        reads = self._spec.revalidation.config_reads
        return check_configuration(parts.server, ModelRegistry(self._store), parts.manifest, reads)

    def _check_answers(self, version: int) -> CheckResult:
        return check_answers(self._parts(version), self._recorded.promoted_by.get(version))

    def _check_latency(self, version: int) -> CheckResult:
        return check_latency(self._parts(version), now=datetime.now(UTC), run_id=self._run_id)

    def _parts(self, version: int) -> GoldenParts:
        manifest = ModelRegistry(self._store).require(self._spec.model, version)
        return GoldenParts(self._store, self._spec, manifest, self._server)

    @cached_property
    def _server(self) -> LiveServer:
        endpoint = IngressHook().endpoint(self._live.url)
        return live_server(self._live.protocol, endpoint, self._spec.revalidation.timeout_s)

    @cached_property
    def _recorded(self) -> Recorded:
        return self._look.recorded()

    def _guarded(self, check: Check, make: Callable[[], CheckResult]) -> CheckResult:
        try:
            return make()
        except SlipwayError as error:
            log.warning("%s of %s could not be checked: %s", check, self._spec.model, error)
            return could_not_check(check, error)
