from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.recordings import replay as judged_again
from slipway_core.canary.verdict import Verdict
from slipway_core.canary.verdict_text import explained
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy

Tally = tuple[int, int]


def users(stable: Tally = (1140, 0), candidate: Tally = (60, 0)) -> Window:
    return Window(10.0, Sample(*stable), Sample(*candidate))


def streamed(stable: Tally = (20, 0), candidate: Tally = (20, 0)) -> Window:
    return Window(10.0, Sample(*stable), Sample(*candidate), "stream")


def judge(bake_s: float = 20.0) -> CanaryJudge:
    made = CanaryJudge(AnalysisPolicy())
    made.begin_step(5, bake_s)
    return made


def seen_by(judged: CanaryJudge, *windows: Window) -> Verdict:
    return [judged.observe(window) for window in windows][-1]


NOBODY = streamed((0, 0), (0, 0))
CLEAN = [streamed(), users(), streamed(), users(), streamed(), users()]


def test_errors_inside_streams_fail_a_candidate_whose_users_look_well() -> None:
    """The measured hole: no counter of the router shows an error, and every inference inside the streams fails."""
    judged = judge(600.0)
    windows = [one for _ in range(5) for one in (streamed((10, 0), (10, 10)), users())]
    verdicts = [judged.observe(window) for window in windows]
    failed = next(place for place, verdict in enumerate(verdicts) if verdict.status == "fail")
    assert failed // 2 < 3  # three windows, long before the bake is over
    assert f"{10 * (failed // 2 + 1)} streamed golden requests, {10 * (failed // 2 + 1)} errors" in (
        verdicts[failed].reason
    )
    assert verdicts[-1].status == "fail"
    assert verdicts[-1].statistics.canary.candidate_errors == 0


def test_a_step_passes_by_enough_answers_that_were_read() -> None:
    """The pass says how many they were."""
    verdict = seen_by(judge(), *CLEAN)
    assert verdict.status == "pass"
    assert "60 streamed golden requests, 0 errors; stable 60, 0 errors" in verdict.reason


@pytest.mark.parametrize(
    "last",
    [NOBODY, streamed((20, 20), (20, 0)), streamed((20, 0), (20, 20)), streamed((20, 0), (0, 0))],
    ids=["nobody was asked", "stable fails", "the candidate fails", "the candidate hangs"],
)
def test_a_step_whose_last_window_was_read_by_nobody_does_not_pass(last: Window) -> None:
    """Enough good answers in the windows before are no answer now."""
    verdict = seen_by(judge(), *CLEAN, last, users())
    assert verdict.status == "inconclusive"
    assert "streams hold now" in verdict.reason or "Suspicious" in verdict.reason
    assert seen_by(judge(), *CLEAN, NOBODY, users(), streamed(), users()).status == "pass"


@pytest.mark.parametrize(
    "windows",
    [
        [NOBODY, users(), NOBODY, users(), NOBODY, users()],
        [streamed(), users(), streamed(), users()],
        [streamed((20, 20), (20, 0)), users()] * 4,
    ],
    ids=["none", "too few", "not by stable"],
)
def test_too_few_answers_that_were_read_pass_nothing(windows: list[Window]) -> None:
    """Users' windows are clean and plenty, and the bake is over."""
    verdict = seen_by(judge(), *windows)
    assert verdict.status == "inconclusive"
    assert "Too few answers inside streams were read" in verdict.reason
    assert "50 are needed" in verdict.reason


def test_each_step_needs_its_own() -> None:
    """What was streamed in the step before is not what this weight's users meet."""
    judged = judge()
    assert seen_by(judged, *CLEAN).status == "pass"
    judged.begin_step(6, 20.0)
    assert seen_by(judged, users(), users()).status == "inconclusive"
    assert seen_by(judged, *CLEAN).status == "pass"


def test_they_never_stand_for_users() -> None:
    """No bake time passes by them, and they make up no minimum of users' requests."""
    verdict = seen_by(judge(), *[streamed()] * 10)
    assert verdict.status == "inconclusive"
    assert "0 candidate requests in this step" in verdict.reason
    assert verdict.statistics.step.seconds == 0.0


def test_stable_that_fails_them_too_condemns_nobody() -> None:
    """What fails for both shows nothing."""
    verdict = seen_by(judge(), *[streamed((20, 20), (20, 20)), users()] * 10)
    assert verdict.status == "inconclusive"
    assert verdict.statistics.total_evidence < 2


def test_streams_that_the_cluster_disturbed_fail_nobody_and_pass_nobody() -> None:
    """A pod that its node lost answers no stream: that is no fault of the model, and no answer either."""
    lost = replace(streamed((20, 0), (20, 20)), disruption="its node is lost")
    verdict = seen_by(judge(), *CLEAN, lost, users())
    assert verdict.status == "inconclusive"
    assert "streams hold now" in verdict.reason
    assert verdict.statistics.total_evidence < 2
    first = judge(0.0)
    assert seen_by(first, lost, users()).status == "inconclusive"


def test_the_state_is_carried_over_a_restart() -> None:
    """Whatever window comes next, the verdict is the same."""
    begun = judge()
    seen_by(begun, *CLEAN, NOBODY)
    for window in (users(), streamed(), streamed((20, 0), (20, 3)), users()):
        again = CanaryJudge.from_json(begun.to_json())
        assert again.observe(window) == begun.observe(window)


def test_a_record_without_streams_has_no_word_of_them() -> None:
    """A canary of a model of single responses has no word of streams in its record."""
    judged = judge()
    verdict = seen_by(judged, users(), users())
    assert "stream" not in json.dumps(verdict.to_dict())
    assert verdict.status == "pass"


def test_recorded_windows_are_judged_again_and_explained() -> None:
    """Each window names its source, in the record and in words."""
    judged = judge()
    verdicts = [judged.observe(window) for window in CLEAN]
    lines = [json.dumps({"step": {"weight": 5, "bake_s": 20.0}})]
    lines += [json.dumps({"window": window.to_dict()}) for window in CLEAN]
    again = [verdict for _, verdict in judged_again(lines, "the recording")]
    assert again == verdicts
    assert [Verdict.from_dict(json.loads(json.dumps(one.to_dict()))) for one in verdicts] == verdicts
    assert "Window 1 of streamed golden requests" in explained(1, verdicts[0], None)
    assert " of " not in explained(2, verdicts[1], verdicts[0]).partition(",")[0]


def test_three_sources_keep_the_promise_of_one() -> None:
    """Users, replays and streams of a candidate that is no worse: in 150 canaries no more fail than alpha allows."""
    draw = random.Random(3)
    failed = 0
    for _ in range(150):
        judged = judge(1e9)
        for _ in range(20):
            rate = draw.choice([0.0, 0.01, 0.05])

            def some(requests: int, rate: float = rate) -> Tally:
                return requests, sum(draw.random() < rate for _ in range(requests))

            for window in (
                streamed(some(20), some(20)),
                users(some(380), some(20)),
                Window(10.0, Sample(*some(20)), Sample(*some(20)), "replay"),
            ):
                verdict = judged.observe(window)
        failed += verdict.status == "fail"
    assert failed <= 2


def test_what_replays_and_streams_begin_with_is_taken_from_users() -> None:
    """Neither source's first window changes the evidence by more than it says itself."""
    judged = judge()
    before = seen_by(judged, users((1140, 0), (60, 2))).statistics.total_evidence
    silent = Window(10.0, Sample(0, 0), Sample(0, 0), "replay")
    after = [judged.observe(window).statistics.total_evidence for window in (NOBODY, silent)]
    assert after == pytest.approx([before, before])
