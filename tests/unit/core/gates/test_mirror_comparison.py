"""The mirror gate: what is held of a report, and when it is certain."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import MirrorInconclusiveError, MirrorRefusedError, SlipwayError, SpecError
from slipway_core.gates.mirror_comparison import (
    MirrorLimits,
    MirrorReport,
    judge_mirror,
    mirror_evidence,
    mirror_limits,
    not_compared,
    require_mirror,
)
from slipway_core.reports.mirror_page import render_mirror_html
from slipway_core.spec.release_file import parse_release_spec

LIMITS = MirrorLimits(
    requests=200,
    required=False,
    abs_tolerance=1e-4,
    rel_tolerance=1e-3,
    class_output="probabilities",
    agreement_min=0.9,
    error_percent_max=0.0,
    differ_percent_max=None,
)


def report(
    equal: int = 200, differ: int = 0, disagree: int = 0, rows_each: int = 1, **more: int
) -> MirrorReport:
    """A report of requests with some rows each; in `disagree` of them every row changed its class."""
    compared = equal + differ
    names = ("received", "ignored", "dropped", "candidate_failed", "stable_failed", "both_failed")
    counts = dict.fromkeys(names, 0) | more
    counts["received"] = more.get("received", compared + sum(more.values()))
    counts |= {"compared": compared, "equal": equal, "differ": differ}
    counts |= {"agree": compared - disagree, "disagree": disagree}
    rows = {"compared": compared * rows_each, "agree": (compared - disagree) * rows_each}
    return MirrorReport.from_json({"counts": counts, "rows": rows, "seconds": 60.0})


def spec_of(mirror: str) -> Any:
    text = (
        f"model: digits\nsource: {{format: onnx}}\nrollout:\n  preview: {{}}\n  mirror_comparison: {mirror}\n"
    )
    return parse_release_spec(text, "digits.yaml")


def test_equal_answers_pass() -> None:
    """Enough requests, no failure and the same classes are a pass, with the numbers in its reason."""
    verdict = judge_mirror(report(), LIMITS)
    assert (verdict.status, verdict.error_percent, verdict.agreement) == ("pass", 0.0, 1.0)
    assert "200 requests" in verdict.reason


def test_differences_alone_refuse_nothing_unless_that_is_asked_for() -> None:
    """A better model differs; only a release that sets `differ_percent_max` is refused for it."""
    one = report(equal=150, differ=50)
    assert judge_mirror(one, LIMITS).status == "pass"
    assert judge_mirror(one, replace(LIMITS, differ_percent_max=25.0)).status == "pass"
    verdict = judge_mirror(one, replace(LIMITS, differ_percent_max=24.0))
    assert verdict.status == "fail"
    assert "50 of 200 answers differ" in verdict.reason


def test_a_single_failure_refuses_by_default() -> None:
    """The candidate failing where stable answers is a fault however few requests there were; its kind is told."""
    found = MirrorReport.model_validate(
        report(equal=1, candidate_failed=1).model_dump() | {"failures": {"candidate": {"HTTP 500": 1}}}
    )
    verdict = judge_mirror(found, LIMITS)
    assert verdict.status == "fail"
    assert "1 of 2 requests" in verdict.reason
    assert "1 × HTTP 500" in verdict.reason


def test_what_fails_on_stable_too_is_not_the_candidates_fault() -> None:
    """Failures of stable, or of both, do not count against the candidate."""
    verdict = judge_mirror(report(stable_failed=40, both_failed=40), LIMITS)
    assert verdict.status == "pass"


def test_classes_that_changed_refuse() -> None:
    """Fewer rows with the same class than the release asks for are a refusal that says how many."""
    assert judge_mirror(report(disagree=20), LIMITS).status == "pass"
    verdict = judge_mirror(report(disagree=21), LIMITS)
    assert verdict.status == "fail"
    assert "179 of 200 rows" in verdict.reason


def test_too_few_requests_are_inconclusive() -> None:
    """Fewer requests than asked for, without a certain fault, say nothing; the reason says what was lost."""
    verdict = judge_mirror(report(equal=120, dropped=7, both_failed=3), LIMITS)
    assert verdict.status == "inconclusive"
    assert "120 of 200" in verdict.reason
    assert "7 were dropped, 3 failed on stable" in verdict.reason


def test_no_request_points_to_the_router() -> None:
    """Where nothing arrived at all, the reason says what to look at."""
    verdict = judge_mirror(report(equal=0), LIMITS)
    assert verdict.status == "inconclusive"
    assert "router" in verdict.reason


def test_an_agreement_that_was_not_measured_is_no_pass() -> None:
    """Where no answer shows a class, what is asked for was not shown; asked for nothing, it is a pass."""
    assert judge_mirror(report(rows_each=0), LIMITS).status == "inconclusive"
    assert judge_mirror(report(rows_each=0), replace(LIMITS, agreement_min=0.0)).status == "pass"


def showing(classes: int) -> MirrorReport:
    """A report of 200 requests of which some show a class, all the same from both."""
    found = report().model_dump()
    found["counts"] |= {"agree": classes, "disagree": 0}
    found["rows"] = {"compared": classes, "agree": classes}
    return MirrorReport.model_validate(found)


@pytest.mark.parametrize(
    ("agreement_min", "needed"), [(0.7, 9), (0.9, 29), (0.98, 149), (0.99, 200), (1.0, 200), (1e-6, 1)]
)
def test_an_agreement_of_very_few_requests_is_no_pass(agreement_min: float, needed: int) -> None:
    """As many must show a class as would have shown a disagreement, but never more than were compared."""
    limits = replace(LIMITS, agreement_min=agreement_min)
    few = judge_mirror(showing(needed - 1), limits)
    assert few.status == "inconclusive"
    assert f"and {needed} must show one" in few.reason
    assert judge_mirror(showing(needed), limits).status == "pass"


def test_requests_without_rows_show_no_class() -> None:
    """They count as compared and alike, and say nothing of the classes."""
    found = report().model_dump()
    found["rows"] = {"compared": 28, "agree": 28}
    assert judge_mirror(MirrorReport.model_validate(found), LIMITS).status == "inconclusive"


def test_requests_on_which_the_candidate_may_fail_need_not_show_a_class() -> None:
    """Where some may fail, all others showing the same class is as much agreement as there can be."""
    limits = replace(LIMITS, agreement_min=1.0, error_percent_max=10.0)
    assert judge_mirror(report(equal=190, candidate_failed=10), limits).status == "pass"


_COUNT = st.integers(0, 300)


@given(
    equal=_COUNT,
    differ=_COUNT,
    failed=_COUNT,
    disagree=_COUNT,
    rows=st.integers(0, 5),
    more=st.integers(0, 400),
)
def test_no_further_good_requests_change_a_refusal_before_the_end(
    equal: int, differ: int, failed: int, disagree: int, rows: int, more: int
) -> None:
    """A refusal given early is still one after as many good requests as were yet to come."""
    limits = replace(LIMITS, error_percent_max=10.0, differ_percent_max=20.0)
    disagree = min(disagree, equal + differ)
    early = report(equal, differ, disagree, rows, candidate_failed=failed)
    if judge_mirror(early, limits).status != "fail":
        return
    left = min(more, max(limits.requests - early.counts.judged, 0))
    later = report(equal + left, differ, disagree, rows, candidate_failed=failed)
    assert judge_mirror(later, limits).status == "fail"


@given(equal=_COUNT, differ=_COUNT, failed=_COUNT, disagree=_COUNT)
def test_a_pass_means_that_every_limit_is_met(equal: int, differ: int, failed: int, disagree: int) -> None:
    """With enough requests the verdict is pass exactly when every share is within its limit."""
    limits = replace(LIMITS, error_percent_max=10.0, differ_percent_max=50.0)
    disagree = min(disagree, equal + differ)
    one = report(equal, differ, disagree, candidate_failed=failed)
    if one.counts.judged < limits.requests:
        assert judge_mirror(one, limits).status != "pass"
        return
    compared = equal + differ
    met = (
        10 * failed <= one.counts.judged
        and 2 * differ <= one.counts.judged
        and (compared > 0 and 10 * disagree <= compared)
    )
    assert (judge_mirror(one, limits).status == "pass") == met


def test_a_refusal_names_version_and_reason() -> None:
    """A failed comparison is an error of the gates' branch, with the verdict's reason in it."""
    verdict = judge_mirror(report(candidate_failed=3), LIMITS)
    with pytest.raises(MirrorRefusedError, match=r"digits version 7 .* failed on 3 of 203"):
        require_mirror(verdict, LIMITS, "digits", 7)
    require_mirror(judge_mirror(report(), LIMITS), LIMITS, "digits", 7)


def test_inconclusive_goes_on_unless_it_is_required() -> None:
    """Too few requests refuse a version only where the release file requires the comparison; else it cannot be told."""
    verdict = judge_mirror(report(equal=3), LIMITS)
    with pytest.raises(MirrorInconclusiveError, match=r"was not compared .* 3 of 200 .*docs/mirror\.md"):
        require_mirror(verdict, LIMITS, "digits", 7)
    with pytest.raises(MirrorRefusedError, match=r"was not compared .* 3 of 200 .*docs/mirror\.md"):
        require_mirror(verdict, replace(LIMITS, required=True), "digits", 7)


def test_limits_that_are_left_out_come_from_the_other_gates() -> None:
    """Tolerances are the conversion's and the agreement the validation's, unless the file says otherwise."""
    spec = spec_of("{}")
    limits = mirror_limits(spec, spec.rollout.mirror_comparison)
    assert (limits.abs_tolerance, limits.rel_tolerance) == (1e-4, 1e-3)
    assert (limits.agreement_min, limits.class_output) == (0.9, "probabilities")
    spec = spec_of("{output: label}")
    assert mirror_limits(spec, spec.rollout.mirror_comparison).class_output == "label"
    spec = spec_of("{abs_tolerance: 0.0, agreement_min: 0.0}")
    limits = mirror_limits(spec, spec.rollout.mirror_comparison)
    assert (limits.abs_tolerance, limits.rel_tolerance, limits.agreement_min) == (0.0, 1e-3, 0.0)


def test_the_release_file_is_checked() -> None:
    """Off by default; a value out of range is refused by its key."""
    assert (
        parse_release_spec("model: digits\nsource: {format: onnx}\n", "digits.yaml").rollout.mirror_comparison
        is None
    )
    with pytest.raises(SpecError, match="agreement_min"):
        spec_of("{agreement_min: 1.5}")
    with pytest.raises(SpecError, match="needs `preview:`"):
        parse_release_spec(
            "model: digits\nsource: {format: onnx}\nrollout: {mirror_comparison: {}}\n", "digits.yaml"
        )


def test_a_result_that_is_none_is_the_pods_fault() -> None:
    """What cannot be read names the place."""
    with pytest.raises(SlipwayError, match=r"at counts\.received"):
        MirrorReport.from_json({"counts": {}, "rows": {"compared": 0, "agree": 0}})


def test_more_rows_that_agree_than_rows_are_no_report() -> None:
    """They would make up for rows that do not agree."""
    good = report(200).model_dump(mode="json")
    with pytest.raises(SlipwayError, match="9 of 8 rows agree"):
        MirrorReport.from_json({**good, "rows": {"compared": 8, "agree": 9}})


def page_of(found: MirrorReport | None, status_reason: Any) -> tuple[str, dict[str, Any]]:
    evidence = mirror_evidence(
        model="digits",
        version=3,
        stable_version=2,
        release_id="digits-3",
        created_at="2026-01-02T03:04:05+00:00",
        verdict=status_reason,
        limits=LIMITS,
        report=found,
    )
    return render_mirror_html(evidence), evidence


def test_the_page_stands_alone_and_shows_what_differs() -> None:
    """The page holds verdict, counts and differences, escaped; it loads nothing, and its data is plain JSON."""
    told = {
        "request": "0123456789abcdef",
        "output": "<b>y</b>",
        "kind": "values",
        "stable": 1.5,
        "candidate": "nan",
        "index": [0, 3],
        "elements": 2,
        "times": 4,
    }
    found = MirrorReport.model_validate(
        report(equal=150, differ=50, disagree=30).model_dump()
        | {
            "differences": [told],
            "class_changes": [{"stable": 3, "candidate": 8, "rows": 30}],
            "outputs": {"y": {"compared": 200, "differ": 50}},
            "protocols": {"http": 200, "grpc": 0},
            "latency_ms": {"stable": {"avg": 1, "p50": 1, "p90": 2, "p99": 3}, "candidate": None},
        }
    )
    page, evidence = page_of(found, judge_mirror(found, LIMITS))
    assert json.loads(json.dumps(evidence, allow_nan=False)) == evidence | {
        "report": json.loads(json.dumps(evidence["report"]))
    }
    for words in (
        "✗ fail",
        "170 of 200 rows",
        "0123456789abcdef",
        "&lt;b&gt;y&lt;/b&gt;",
        "[0, 3]",
    ):
        assert words in page
    assert "<b>y</b>" not in page
    for loads in ("<script", "http://", "https://", "src=", "@import", "url("):
        assert loads not in page


def test_a_comparison_that_could_not_be_made_has_a_page_too() -> None:
    """Without a report the page says why."""
    page, _ = page_of(None, not_compared("the routes give the revisions no separate addresses"))
    assert "inconclusive" in page
    assert "no separate addresses" in page
