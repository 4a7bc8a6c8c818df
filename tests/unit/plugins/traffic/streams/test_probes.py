from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from slipway.hooks.ingress import IngressHook
from slipway.metrics.source import MetricsSource
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.streams import probes as module
from slipway.traffic.streams.answer import StreamedAnswer
from slipway.traffic.streams.probes import StreamProbes
from slipway_core.canary.judge import CanaryJudge
from slipway_core.errors import GoldenSetError, MetricsUnavailableError
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from tests.support.canary.streamed_versions import (
    CANDIDATE,
    DECOUPLED,
    STABLE,
    AskerDouble,
    VersionsDouble,
    WayDouble,
    with_streaming,
)
from tests.support.waiting import until

BOTH = (STABLE, CANDIDATE)
GOOD, BAD = StreamedAnswer(0.01, 2), StreamedAnswer(0.01, 0, "drawn to fail")


class Askers:
    """Both revisions, by host; what each answers is set by the test."""

    def __init__(self) -> None:
        self.by_host = {
            "prev-digits.example": AskerDouble(lambda: GOOD),
            "latest-digits.example": AskerDouble(lambda: GOOD),
        }

    @property
    def stable(self) -> AskerDouble:
        return self.by_host["prev-digits.example"]

    @property
    def candidate(self) -> AskerDouble:
        return self.by_host["latest-digits.example"]

    def make(self, protocol: str, endpoint: Any, *_: Any) -> AskerDouble:
        return self.by_host[endpoint.host]


@pytest.fixture
def askers(monkeypatch: pytest.MonkeyPatch) -> Askers:
    """What stands for both revisions."""
    made = Askers()
    monkeypatch.setattr(module, "make_asker", made.make)
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    return made


@pytest.fixture
def versions() -> VersionsDouble:
    """A decoupled candidate over a decoupled stable version."""
    return VersionsDouble(v3={"digits": DECOUPLED}, v2={"digits": DECOUPLED})


Probing = Callable[..., StreamProbes]


@pytest.fixture
def probing(release_run: ReleaseRun, versions: VersionsDouble) -> Probing:
    """Makes probes at 200 requests a second in all."""

    def make(metrics: Any = None) -> StreamProbes:
        return StreamProbes(
            with_streaming(release_run, requests_per_s=200.0),
            cast(ModelRegistry, versions),
            cast(IngressHook, WayDouble()),
            cast(MetricsSource, metrics),
        )

    return make


def counts(window: Window | None) -> tuple[int, int, int, int]:
    assert window is not None
    assert window.source == "stream"
    stable, candidate = window.stable, window.candidate
    return stable.requests, stable.errors, candidate.requests, candidate.errors


async def test_the_same_rows_go_to_both_and_a_window_takes_what_has_ended(
    askers: Askers, probing: Probing
) -> None:
    """Each window has what ended since the one before, by revision."""
    probes = probing()
    probes.begin(lambda: BOTH)
    await until(lambda: len(askers.candidate.bodies) >= 6)
    first = counts(probes.take())
    assert min(first[0], first[2]) >= 5
    assert (first[1], first[3]) == (0, 0)
    await until(lambda: len(askers.candidate.bodies) >= 12)
    second = counts(probes.take())
    assert first[2] + second[2] <= len(askers.candidate.bodies)
    assert askers.stable.bodies[:6] == askers.candidate.bodies[:6]
    assert len({*askers.candidate.bodies}) == 3
    probes.stop()
    await until(lambda: askers.stable.is_closed and askers.candidate.is_closed)


async def test_faults_are_errors_of_whom_they_came_from(askers: Askers, probing: Probing) -> None:
    """Stable's good answers stay good."""
    askers.candidate.answer = lambda: BAD
    probes = probing()
    probes.begin(lambda: BOTH)
    await until(lambda: len(askers.candidate.bodies) >= 6)
    window = counts(probes.take())
    assert window[1] == 0
    assert window[3] == window[2] > 0
    probes.stop()


async def test_a_client_that_breaks_on_an_answer_is_an_error(askers: Askers, probing: Probing) -> None:
    """Whatever a server makes a client raise ends no watch."""

    def hostile() -> StreamedAnswer:
        raise ValueError("no message of this protocol")

    askers.candidate.answer = hostile
    probes = probing()
    probes.begin(lambda: BOTH)
    await until(lambda: len(askers.candidate.bodies) >= 6)
    assert counts(probes.take())[3] > 0
    probes.stop()


async def test_a_revision_that_hangs_holds_up_nobody(askers: Askers, probing: Probing) -> None:
    """Windows come at once, stable is asked on, and no more than eight requests wait for an answer."""
    askers.candidate.hangs = True
    probes = probing()
    probes.begin(lambda: BOTH)
    await until(lambda: len(askers.stable.bodies) >= 20)
    assert counts(probes.take())[2:] == (0, 0)
    assert len(askers.candidate.bodies) == 8
    probes.stop()


@pytest.mark.parametrize(("urls", "lacks"), [(("", CANDIDATE), "stable"), ((STABLE, ""), "the candidate")])
async def test_a_revision_without_a_url_passes_nothing(
    askers: Askers, probing: Probing, urls: tuple[str, str], lacks: str
) -> None:
    """Neither is asked; the windows are empty, and the verdict names what is lacking."""
    probes = probing()
    probes.begin(lambda: urls)
    await until(lambda: probes.obstacle.startswith(f"{lacks} has no URL of its own"))
    window = probes.take()
    assert counts(window) == (0, 0, 0, 0)
    assert window is not None
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(5, 0)
    verdict = probes.explained(judge.observe(window))
    assert verdict.status == "inconclusive"
    assert f"No golden requests are streamed: {lacks} has no URL" in verdict.reason
    assert askers.stable.bodies == askers.candidate.bodies == []
    probes.stop()


async def test_urls_that_come_or_change_are_followed(askers: Askers, probing: Probing) -> None:
    """A revision that gets its URL during the watch is asked from then on."""
    urls = ["", CANDIDATE]
    probes = probing()
    probes.begin(lambda: (urls[0], urls[1]))
    await until(lambda: bool(probes.obstacle))
    urls[0] = STABLE
    await until(lambda: len(askers.stable.bodies) > 3)
    assert probes.obstacle == ""
    probes.stop()


async def test_while_the_store_is_away_it_is_not_known(
    askers: Askers, probing: Probing, versions: VersionsDouble
) -> None:
    """Not even whether the model is asked over streams; it is as soon as the store answers."""
    versions.away = True
    probes = probing()
    probes.begin(lambda: BOTH)
    assert not await probes.is_known(0.05)
    assert probes.take() is None
    versions.away = False
    assert await probes.is_known(5.0)
    await until(lambda: len(askers.candidate.bodies) > 3)
    probes.stop()


async def test_a_golden_set_that_cannot_be_read_passes_nothing(
    askers: Askers, probing: Probing, versions: VersionsDouble
) -> None:
    """The windows are empty, and the reason is told."""
    versions.golden_error = GoldenSetError("the golden set is no npz")
    probes = probing()
    probes.begin(lambda: BOTH)
    assert await probes.is_known(5.0)
    await until(lambda: "no npz" in probes.obstacle)
    assert counts(probes.take()) == (0, 0, 0, 0)
    probes.stop()


async def test_a_configuration_that_cannot_be_read_passes_nothing(
    askers: Askers, probing: Probing, versions: VersionsDouble
) -> None:
    """What cannot be told is not "no streams"."""
    versions.versions[3] = {"digits": "decoupled {"}
    probes = probing()
    probes.begin(lambda: BOTH)
    assert await probes.is_known(5.0)
    assert counts(probes.take()) == (0, 0, 0, 0)
    assert "config" in probes.obstacle
    probes.stop()


async def test_a_model_of_single_responses_is_not_asked(
    askers: Askers, probing: Probing, versions: VersionsDouble
) -> None:
    """There is no window of streams in its canary."""
    versions.versions = VersionsDouble().versions
    probes = probing()
    probes.begin(lambda: BOTH)
    assert await probes.is_known(5.0)
    assert probes.take() is None
    assert askers.candidate.bodies == []
    probes.stop()


class Counting:
    """A metrics source that tells streams apart."""

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.away = False

    def streams_seen(self, namespace: str, inference_service: str) -> int:
        """Of one InferenceService, while the source answers."""
        if self.away:
            raise MetricsUnavailableError("the metrics endpoint did not answer")
        return self.seen if (namespace, inference_service) == ("models", "digits") else 0


@pytest.mark.parametrize(("seen", "passes"), [(0, True), (4, False)])
async def test_streams_that_nobody_spoke_of_pass_nothing(
    askers: Askers, probing: Probing, versions: VersionsDouble, seen: int, passes: bool
) -> None:
    """The router has seen streams of a model of single responses: the step does not pass, and is told what to write."""
    versions.versions = VersionsDouble().versions
    probes = probing(Counting(seen))
    probes.begin(lambda: BOTH)
    assert await probes.is_known(5.0)
    window = probes.take()
    assert (window is None) == passes
    assert passes or "`rollout.streaming: {protocol: grpc}`" in probes.obstacle
    probes.stop()


async def test_a_router_that_never_tells_of_streams_passes_nothing(
    askers: Askers, probing: Probing, versions: VersionsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while it is an obstacle, so that the step ends as one that could not be judged."""
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    monkeypatch.setattr(module, "_LOOK_LIMIT_S", 0.0)
    versions.versions = VersionsDouble().versions
    router = Counting(0)
    router.away = True
    probes = probing(router)
    probes.begin(lambda: BOTH)
    assert await probes.is_known(5.0)
    assert counts(probes.take()) == (0, 0, 0, 0)
    assert "it is unknown whether users stream" in probes.obstacle
    probes.stop()


async def test_streams_that_are_seen_later_count(
    askers: Askers, probing: Probing, versions: VersionsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router is looked at again and again, and before the first look it is not known that there are none."""
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    versions.versions = VersionsDouble().versions
    router = Counting(0)
    router.away = True
    probes = probing(router)
    probes.begin(lambda: BOTH)
    assert not await probes.is_known(0.05)
    router.away = False
    assert await probes.is_known(5.0)
    assert probes.take() is None
    router.seen = 1
    await until(lambda: probes.take() is not None)
    probes.stop()
