from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.verdict import Verdict
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from tests.support.examples import examples

Tally = tuple[int, int]
BOUNDS_MS = (5.0, 10.0, 20.0, 50.0, float("inf"))


def users(stable: Tally, candidate: Tally) -> Window:
    return Window(10.0, Sample(*stable), Sample(*candidate))


def replay(stable: Tally, candidate: Tally) -> Window:
    return Window(10.0, Sample(*stable), Sample(*candidate), "replay")


def timed(stable: tuple[int, ...], candidate: tuple[int, ...], source: str) -> Window:
    """A window without errors, from the counts in BOUNDS_MS."""
    samples = [
        Sample(sum(counts), 0, dict(zip(BOUNDS_MS, counts, strict=True))) for counts in (stable, candidate)
    ]
    return Window(10.0, *samples, source)  # type: ignore[arg-type]


def judge(bake_s: float = 0.0, **policy: float) -> CanaryJudge:
    made = CanaryJudge(AnalysisPolicy.from_mapping(policy))
    made.begin_step(5, bake_s)
    return made


def seen_by(judged: CanaryJudge, *windows: Window) -> Verdict:
    """The verdict on the last of some windows."""
    return [judged.observe(window) for window in windows][-1]


QUIET = users((20, 0), (1, 0))
CLEAN = replay((50, 0), (50, 0))
FAILING = replay((50, 0), (50, 12))


# --- what replays are good for ---


def test_a_good_candidate_without_users_passes_by_replays_and_the_reason_says_so() -> None:
    """Replays make up the minimum of samples, and a pass that rests on them names them."""
    judged = judge(bake_s=20.0)
    assert seen_by(judged, QUIET, QUIET, QUIET).status == "inconclusive"
    verdict = seen_by(judged, QUIET, CLEAN)
    assert verdict.status == "pass"
    assert "of them 50 replayed golden requests" in verdict.reason


def test_a_pass_on_users_alone_does_not_speak_of_replays() -> None:
    """Where users have sent enough after all, the pass rests on them."""
    judged = judge()
    verdict = seen_by(judged, QUIET, CLEAN, users((950, 0), (60, 0)))
    assert verdict.status == "pass"
    assert "rests on" not in verdict.reason


def test_a_candidate_that_fails_replays_fails() -> None:
    """Errors that stable does not give for the same golden requests condemn it, as users' errors do."""
    judged = judge()
    windows = [window for _ in range(6) for window in (QUIET, FAILING)]
    verdicts = [judged.observe(window).status for window in windows]
    assert "fail" in verdicts
    assert verdicts.index("fail") > 1  # no single window decides


def test_a_candidate_that_is_slow_in_replays_fails() -> None:
    """Their latencies are compared with those of stable's replays, and told as what they are."""
    slow = timed((0, 300, 180, 20, 0), (0, 0, 200, 280, 20), "replay")
    judged = judge()
    failed = next(one for _ in range(20) if (one := seen_by(judged, QUIET, slow)).status == "fail")
    assert "in the same windows (replayed golden requests: p" in failed.reason
    assert " ms of stable (quantile 0." in failed.reason
    assert "errors" not in failed.reason


# --- what they are not ---


def test_replays_are_counted_apart() -> None:
    """Totals of users, of bake time and of windows know nothing of replays, which have their own."""
    step = seen_by(judge(), QUIET, FAILING).statistics.step
    assert (step.candidate_requests, step.candidate_errors) == (1, 0)
    assert (step.windows, step.seconds) == (1, 10.0)
    assert (step.replayed_requests, step.replayed_errors) == (50, 12)
    assert (step.stable_replayed_requests, step.stable_replayed_errors) == (50, 0)


def test_replays_that_stable_fails_too_show_nothing() -> None:
    """A way to the revisions that does not work is no fault of the candidate, and no proof of its health."""
    judged = judge()
    for _ in range(20):
        verdict = seen_by(judged, QUIET, replay((50, 50), (50, 50)))
    assert verdict.status == "inconclusive"
    assert "0 replayed ones" in verdict.reason


def test_the_two_sources_never_compare_with_each_other() -> None:
    """A golden set that takes ten times as long as users' requests, on both revisions, is no slower candidate."""
    judged = judge()
    quick, long = (0, 90, 10, 0, 0), (0, 0, 0, 45, 5)
    for _ in range(40):
        verdict = seen_by(judged, timed(quick, (0, 5, 0, 0, 0), "users"), timed(long, long, "replay"))
        assert verdict.status != "fail"
    assert verdict.status == "pass"
    assert verdict.statistics.total_evidence < 2


def test_ceilings_are_for_users() -> None:
    """A way to the revisions that takes longer than the SLO allows users condemns nobody."""
    judged = judge(latency_ceiling_ms=20.0, error_ceiling_percent=1.0)
    far = timed((0, 0, 0, 0, 50), (0, 0, 0, 0, 50), "replay")
    statuses = {seen_by(judged, QUIET, far, replay((50, 2), (50, 2))).status for _ in range(30)}
    assert "fail" not in statuses


def test_replays_do_not_stand_for_windows_without_data() -> None:
    """While nobody sees the users, no replay makes a pass, and the count of windows without data goes on."""
    judged = judge()
    seen_by(judged, QUIET, CLEAN, CLEAN)
    judged.observe_failure("away")
    verdict = judged.observe(CLEAN)
    assert verdict.status == "inconclusive"
    assert judged.observe_failure("away").statistics.no_data_windows == 2


def test_one_stretch_of_time_does_not_decide_alone_by_its_two_windows() -> None:
    """Users' and replayed windows overlap: one pause of a pod that hits both is one event."""
    judged = judge()
    seen_by(judged, users((950, 0), (50, 0)), CLEAN)
    assert seen_by(judged, users((950, 0), (50, 50)), replay((50, 0), (50, 50))).status != "fail"


# --- laws ---

tallies = st.integers(0, 40).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count)))
both = st.tuples(tallies, tallies)
histories = st.lists(st.tuples(both, both), min_size=1, max_size=8)


def _told(history: list[tuple[tuple[Tally, Tally], tuple[Tally, Tally]]]) -> Iterator[tuple[Window, Window]]:
    for of_users, of_replays in history:
        yield users(*of_users), replay(*of_replays)


@settings(max_examples=examples(30), deadline=None)
@given(histories)
def test_replays_never_clear_what_users_make_suspicious(
    history: list[tuple[tuple[Tally, Tally], tuple[Tally, Tally]]],
) -> None:
    """Whatever is replayed, a candidate that is suspicious by users' windows alone is not passed.

    Where it had failed by them alone the story ends: a judge that has failed keeps its evidence, and looks no more.
    """
    alone, mixed = judge(), judge()
    for of_users, of_replays in _told(history):
        by_users = alone.observe(of_users)
        if by_users.status == "fail":
            return
        mixed.observe(of_users)
        status = mixed.observe(of_replays).status
        assert not (by_users.statistics.total_evidence >= 2 and status == "pass")


@settings(max_examples=examples(30), deadline=None)
@given(histories, st.data())
def test_more_errors_among_replays_never_help(
    history: list[tuple[tuple[Tally, Tally], tuple[Tally, Tally]]], data: st.DataObject
) -> None:
    """Turning good replayed answers of the candidate into errors never lowers the evidence nor makes a pass."""
    mild, harsh = judge(), judge()
    for of_users, of_replays in _told(history):
        candidate = of_replays.candidate
        worse = data.draw(st.integers(candidate.errors, candidate.requests))
        stable = (of_replays.stable.requests, of_replays.stable.errors)
        for judged in (mild, harsh):
            judged.observe(of_users)
        better, poorer = (
            mild.observe(of_replays),
            harsh.observe(replay(stable, (candidate.requests, worse))),
        )
        if poorer.status == "fail":
            return
        assert better.status != "fail"
        assert poorer.statistics.total_evidence >= better.statistics.total_evidence * (1 - 1e-9)
        assert (poorer.status, better.status) != ("pass", "inconclusive")


@settings(max_examples=examples(20), deadline=None)
@given(histories)
def test_the_first_replay_takes_no_evidence_away(
    history: list[tuple[tuple[Tally, Tally], tuple[Tally, Tally]]],
) -> None:
    """Dividing the wealth leaves its sum as it was: an empty replay changes nothing."""
    judged = judge()
    for of_users, _ in _told(history):
        before = judged.observe(of_users)
        if before.status == "fail":
            return
    after = judged.observe(replay((0, 0), (0, 0)))
    assert after.statistics.total_evidence == pytest.approx(before.statistics.total_evidence)


@settings(max_examples=examples(20), deadline=None)
@given(histories, st.integers(0, 8))
def test_a_restart_changes_no_later_verdict(
    history: list[tuple[tuple[Tally, Tally], tuple[Tally, Tally]]], cut: int
) -> None:
    """The state with replays, written to JSON and read back, gives the very same verdicts."""
    whole, parted = judge(), judge()
    for number, pair in enumerate(_told(history)):
        for window in pair:
            if number == cut:
                parted = CanaryJudge.from_json(parted.to_json())
            assert parted.observe(window).to_dict() == whole.observe(window).to_dict()


# --- the promise ---


def test_mixed_windows_rarely_fail_a_candidate_that_is_no_worse() -> None:
    """Of 200 canaries as good as stable, whose pauses hit both kinds of windows, at most alpha (1 %) fail."""
    rng = random.Random(20261121)
    failed = sum(_fails(rng) for _ in range(200))
    assert failed <= 2


def _fails(rng: random.Random, rate: float = 0.02, correlation: float = 0.02) -> bool:
    judged = judge()
    spread = 1 / correlation - 1
    for number in range(25):
        # One share of failures a revision and stretch of time: the two windows of it clump together.
        shares = [rng.betavariate(rate * spread, (1 - rate) * spread) for _ in range(2)]
        tallies = [
            [(count, sum(rng.random() < share for _ in range(count))) for count in counts]
            for share, counts in zip(shares, ((90, 40), (10, 40)), strict=True)
        ]
        stable, candidate = tallies
        windows = [users(stable[0], candidate[0])]
        if number >= 5:
            windows.append(replay(stable[1], candidate[1]))
        if seen_by(judged, *windows).status == "fail":
            return True
    return False
