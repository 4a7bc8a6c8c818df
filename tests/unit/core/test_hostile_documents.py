"""Documents of another form, and numbers that no float holds: typed errors only."""

from __future__ import annotations

import json
import time
from datetime import UTC
from typing import Any

import pytest

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.recordings import read_entry
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import (
    MetricsUnavailableError,
    ModelInvalidError,
    SlipwayError,
    SpecError,
    UserError,
)
from slipway_core.gates.benchmark.result import BenchmarkResult
from slipway_core.gates.mirror_comparison import MirrorReport
from slipway_core.gates.parity import parse_parity
from slipway_core.identifiers import nearest
from slipway_core.lease_limits import LONGEST_LEASE_S
from slipway_core.metrics.samples import Sample
from slipway_core.publishing.conversion_result import parse_converted
from slipway_core.publishing.manifest import Manifest
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.mirror_page import render_mirror_html
from slipway_core.reports.validation.page import render_report_html
from slipway_core.rollout.dialects.standard.preflight import cluster_config
from slipway_core.rollout.lease import parse_lease
from slipway_core.selectors import check_selector
from slipway_core.spec.release_file import apply_overrides, parse_release_spec
from slipway_core.spec.rollout.analysis import AnalysisPolicy

HUGE = 10**400
SPEC = "model: digits\nsource: {format: onnx}\n"


@pytest.mark.parametrize("junk", [None, [], {}, "text", 7, {"runs": None}, {"runs": [{}]}, {"numbers": [1]}])
@pytest.mark.parametrize("read", [CanaryEvidence.from_document, render_mirror_html])
def test_evidence_of_another_form_is_a_user_error(read: Any, junk: Any) -> None:
    """Whoever makes pages of it is told, and not by a KeyError."""
    with pytest.raises(UserError, match="another form"):
        read(junk)


@pytest.mark.parametrize(
    "report",
    [
        [],
        {"numbers": {"accuracy": []}},
        {"kind": "classification", "numbers": {"accuracy": []}},
        {"confusion": {"classes": [0, 1], "counts": [[1]]}},
        {"signature": {"inputs": [True]}},
        {"expectations": 7},
        {"worst": [[]]},
    ],
)
def test_a_validation_report_of_another_form_is_a_user_error(report: Any) -> None:
    """The page says nothing rather than something else."""
    with pytest.raises(UserError, match="another form"):
        render_report_html(report)


@pytest.mark.parametrize(
    "profiles",
    [
        [{}],
        [{"min": {}, "max": {}}],
        [{"min": {"x": 3}, "opt": {}, "max": {}}],
        [{"min": {"x": ["a"]}, "opt": {}, "max": {}}],
        [{"min": [], "opt": {}, "max": {}}],
        "text",
    ],
)
def test_profiles_that_are_none_are_the_converters_fault(profiles: Any) -> None:
    """They are read with the result, not found out when they are held against a configuration."""
    model = {"file": "model.plan", "size_bytes": 3, "sha256": "a" * 64}
    signature: dict[str, Any] = {"inputs": [], "outputs": []}
    with pytest.raises(ModelInvalidError, match="result does not say"):
        parse_converted({"signature": signature, "model": model, "profiles": profiles}, "m", 1)


def test_counts_that_no_counter_holds_are_refused() -> None:
    """A number beyond 64 bits is no count of a comparison, and none of a sample."""
    names = ("received", "ignored", "dropped", "compared", "equal", "differ", "agree", "disagree")
    counts = dict.fromkeys((*names, "candidate_failed", "stable_failed", "both_failed"), 1)
    with pytest.raises(SlipwayError, match=r"counts\.compared"):
        MirrorReport.from_json({"counts": counts | {"compared": HUGE}, "rows": {"compared": 1, "agree": 1}})
    with pytest.raises(MetricsUnavailableError, match="requests"):
        Sample(HUGE, 0)
    with pytest.raises(MetricsUnavailableError, match="upper bound"):
        Sample(1, 0, {HUGE: 1})


@pytest.mark.parametrize("change", [{"errors": 101}, {"requests": HUGE}, {"errors": HUGE}, {"requests": -1}])
def test_a_benchmark_whose_counts_cannot_be_is_the_pods_fault(change: dict[str, Any]) -> None:
    """More errors than requests, or more than can be counted, are refused before anything is computed of them."""
    times = dict.fromkeys(("throughput_rps", "avg_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"), 1.0)
    measured = {"role": "candidate", "round": 0, "concurrency": 1, "requests": 100, "errors": 1, **times}
    assert BenchmarkResult.from_json({"measurements": [measured]})
    with pytest.raises(SlipwayError, match=r"result\.json cannot be read"):
        BenchmarkResult.from_json({"measurements": [measured | change]})


@pytest.mark.parametrize("size_bytes", [-1, 2**62, HUGE])
def test_a_file_of_a_size_that_cannot_be_is_the_converters_fault(size_bytes: int) -> None:
    """The result is refused as a whole."""
    model = {"file": "model.plan", "size_bytes": size_bytes, "sha256": "a" * 64}
    with pytest.raises(ModelInvalidError, match="result does not say"):
        parse_converted({"signature": {"inputs": [], "outputs": []}, "model": model}, "m", 1)


def test_half_a_character_in_a_table_of_parity_is_the_pods_fault() -> None:
    """It could not be written into the evidence."""
    row = {
        "output": "y",
        "max_abs_diff": 0.1,
        "max_rel_diff": None,
        "rows": 3,
        "mismatched_rows": 0,
        "pass": True,
    }
    assert parse_parity([row])
    for strange in ({"output": "\ud800"}, {"worst": [{"a": "\ud800"}]}):
        with pytest.raises(ModelInvalidError, match="parity"):
            parse_parity([row | strange])


def test_an_endless_selector_is_refused_before_it_is_taken_apart() -> None:
    """What is longer than any query is none."""
    with pytest.raises(ValueError, match="characters long"):
        check_selector('x{a="' + "9" * 5_000_000 + '"}')


def test_a_recorded_step_without_an_end_is_refused() -> None:
    """A bake time that no float holds is no bake time."""
    with pytest.raises(SlipwayError, match="bake_s"):
        read_entry(json.dumps({"step": {"weight": 5, "bake_s": HUGE}}))


def test_settings_of_the_cluster_that_cannot_be_read_are_the_defaults() -> None:
    """Brackets alone in KServe's ConfigMap do not keep anything from being looked at."""
    assert cluster_config({"ingress": "[" * 100_000}) == cluster_config({})


def test_a_lease_of_endless_length_is_believed_for_an_hour() -> None:
    """A duration that would switch a guard off is the longest that a release file may ask for."""
    assert parse_lease({"spec": {"leaseDurationSeconds": HUGE}}).lease_s == LONGEST_LEASE_S


@pytest.mark.parametrize(
    "key", ["alpha", "latency_ceiling_ms", "minimum_candidate_requests", "burst_correlation"]
)
@pytest.mark.parametrize("value", [HUGE, -HUGE, float("nan"), float("inf")])
def test_a_policy_with_an_endless_number_is_refused(key: str, value: Any) -> None:
    """No OverflowError and no infinity: the key is named."""
    with pytest.raises(SpecError, match=key):
        AnalysisPolicy.from_mapping({key: value})


@pytest.mark.parametrize(
    "change",
    [
        {"tests": 7},
        {"step": {"seconds": HUGE}},
        {"canary": {"windows": "1"}},
        {"bake_s": HUGE},
        {"policy": []},
    ],
)
def test_a_judge_that_cannot_be_restored_says_so(change: dict[str, Any]) -> None:
    """Whatever lies in the store in its place, the error is the project's."""
    state = json.loads(CanaryJudge(AnalysisPolicy()).to_json())
    with pytest.raises(SlipwayError):
        CanaryJudge.from_json(json.dumps(state | change))
    with pytest.raises(SlipwayError):
        CanaryJudge.from_json("[" * 100_000)


@pytest.mark.parametrize("wealth", [float("nan"), float("inf"), -1.0])
def test_saved_wealth_that_is_no_number_is_refused(wealth: float) -> None:
    """NaN is below every threshold: a judge that took it over would never fail anything."""
    state = json.loads(CanaryJudge(AnalysisPolicy()).to_json())
    state["tests"]["processes"]["wealth"][0][0][0] = wealth
    with pytest.raises(SlipwayError, match="saved state"):
        CanaryJudge.from_json(json.dumps(state))


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"9" * 5000, b"[" * 100_000])
def test_json_that_is_none_is_a_user_error(content: bytes) -> None:
    """The object is named, and what is wrong with it."""
    with pytest.raises(UserError, match=r"a\.json cannot be read"):
        parse_json(content, "a.json")


def test_a_time_that_utc_does_not_have_is_none() -> None:
    """The first hours of year 1, east of Greenwich, are in no calendar of UTC's."""
    lease = parse_lease({"spec": {"renewTime": "0001-01-01T00:00:00+23:59"}})
    assert lease.renewed_at is None
    ours = parse_lease({"spec": {"renewTime": "2026-01-01T00:00:00+02:00"}}).renewed_at
    assert ours is not None
    assert ours.tzinfo is UTC
    with pytest.raises(UserError, match="created_at"):
        Manifest.from_bytes(b'{"created_at": "0001-01-01T00:00:00+23:59"}')


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000])
def test_a_number_of_thousands_of_digits_in_a_release_file_is_refused(number: str) -> None:
    """Python refuses to read it, and the error says which file it is in."""
    with pytest.raises(SpecError, match=r"digits\.yaml"):
        parse_release_spec(f"{SPEC}description: {number}\n", "digits.yaml")


def test_thousands_of_unknown_keys_are_refused_at_once() -> None:
    """The nearest name is sought for those that are told of alone; the others are counted."""
    spec = parse_release_spec(SPEC, "digits.yaml")
    unknown = {f"steps_{number}": number for number in range(15_000)}
    began = time.process_time()
    with pytest.raises(SpecError, match="14999 more problems") as raised:
        apply_overrides(spec, {"rollout": unknown}, "the run's parameters")
    assert time.process_time() - began < 3
    assert len(str(raised.value)) < 6000


def test_what_is_quoted_in_an_error_is_cut() -> None:
    """An unknown key of a hundred thousand letters does not fill the log."""
    spec = parse_release_spec(SPEC, "digits.yaml")
    with pytest.raises(SpecError, match="unknown key") as raised:
        apply_overrides(spec, {"x" * 100_000: 1}, "the run's parameters")
    assert len(str(raised.value)) < 20_000
    assert nearest("stepz", ["steps"]) == "steps"
    assert nearest("x" * 100_000, ["x" * 100_000]) is None
