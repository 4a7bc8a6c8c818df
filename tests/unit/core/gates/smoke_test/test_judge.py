"""The smoke test's verdict: what refuses a version, what is only told, and what cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import (
    SlipwayError,
    SmokeTestInconclusiveError,
    SmokeTestRefusedError,
)
from slipway_core.gates.smoke_test.judge import (
    SmokeTestVerdict,
    judge_smoke_test,
    require_smoke_test,
)
from slipway_core.gates.smoke_test.report import SmokeTestReport
from slipway_core.spec.smoke_test import SmokeTest
from tests.support.smoke_reports import LOADED, growing, probe, report

ABOVE = {"requests": 40, "answered": 39, "p50_ms": 0.7, "p90_ms": 0.9, "differ": 0}
CRASHED = {
    "status": "crashed",
    "seconds": 0.2,
    "reason": "the server was ended by SIGSEGV",
    "log": ["Signal (11)"],
}
SLOW = {**LOADED, "first_request_ms": 900.0}


def judged(limits: SmokeTest | None = None, **changes: Any) -> SmokeTestVerdict:
    """The verdict about a sound model's report with these changes."""
    return judge_smoke_test(SmokeTestReport.from_json(report(**changes)), limits or SmokeTest())


def statuses(verdict: SmokeTestVerdict) -> dict[str, str]:
    """Each check's status by its name."""
    return {one.name: one.status for one in verdict.checks}


def memory(**changes: Any) -> dict[str, Any]:
    """The memory part of a sound report, changed."""
    return {**report()["memory"], **changes}


def robustness(*probes: dict[str, Any], left_out: int = 0) -> dict[str, Any]:
    """A part with these boundary inputs."""
    return {"probes": list(probes), "left_out": left_out, "reason": "the time was up", "seconds": 0.1}


def instances(**changes: Any) -> dict[str, Any]:
    """The instances' part of a sound report, changed."""
    return {**report()["instances"], **changes}


def test_a_sound_version_passes_every_check() -> None:
    """Nothing is inconclusive, and the check without a limit is said to be off."""
    verdict = judged()
    assert verdict.status == "pass"
    assert statuses(verdict).pop("gpu_memory") == "off"
    assert {status for name, status in statuses(verdict).items() if name != "gpu_memory"} == {"pass"}
    assert verdict.reasons == ()
    require_smoke_test(verdict, SmokeTest(), "digits", 2)


@pytest.mark.parametrize(
    ("changes", "check", "told"),
    [
        ({"loads": [LOADED, CRASHED]}, "loads", "load 2 of 3 crashed: the server was ended by SIGSEGV"),
        ({"loads": [{**CRASHED, "status": "timed out"}]}, "loads", "load 1 of 3 timed out"),
        ({"broken": {"message": "gRPC INTERNAL"}}, "answers", "got no answer: gRPC INTERNAL"),
        ({"steady": ABOVE}, "answers", "1 of 1040 golden requests"),
        ({"memory": memory(failed=3)}, "answers", "3 of 1040 golden requests"),
        ({"memory": memory(ended="the server was ended by SIGKILL")}, "answers", "SIGKILL"),
        ({"memory": growing(64.0)}, "memory_growth", "+64.00 MiB per 1000 requests"),
        ({"instances": instances(differ=8, differences=["output y: off by 1"])}, "instances", "off by 1"),
        (
            {"robustness": robustness(probe("NaN", died="ended by SIGSEGV"))},
            "robustness",
            "NaN (grpc): ended",
        ),
        ({"robustness": robustness(probe("NaN", outcome="silent"))}, "robustness", "neither an answer"),
        ({"robustness": robustness(probe("NaN", golden="off by 2"))}, "robustness", "answered otherwise"),
    ],
)
def test_what_harms_the_server_refuses_the_version(changes: dict[str, Any], check: str, told: str) -> None:
    """One bad check is enough, and it is the reason."""
    verdict = judged(**changes)
    assert verdict.status == "fail"
    assert statuses(verdict)[check] == "fail"
    assert told in "; ".join(verdict.reasons)
    with pytest.raises(SmokeTestRefusedError, match=r"smoke_test\.html"):
        require_smoke_test(verdict, SmokeTest(), "digits", 2)


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"not_asked": "the model answers in streams", "memory": None, "steady": None}, "answers"),
        ({"loads": [LOADED]}, "loads"),
        ({"memory": memory(requests=60, samples=[[0, 60.0], [60, 61.0]])}, "memory_growth"),
        ({"instances": instances(expected={"digits": 3})}, "instances"),
        ({"steady": {**ABOVE, "answered": 40, "differ": 4}, "instances": instances(differ=3)}, "instances"),
        ({"robustness": robustness(probe("NaN"), left_out=7)}, "robustness"),
        ({"robustness": None}, "robustness"),
        ({"broken": {"message": "gRPC DEADLINE_EXCEEDED", "silent": True}, "memory": None}, "answers"),
        ({"steady": {**ABOVE, "silent": 1}}, "answers"),
        ({"memory": memory(silent=3)}, "answers"),
        ({"instances": instances(silent=16, limit_s=10.0)}, "instances"),
        ({"robustness": robustness(probe("NaN", outcome="timed out"))}, "robustness"),
        ({"robustness": robustness(probe("NaN", outcome="timed out", stuck="timed out"))}, "robustness"),
    ],
)
def test_what_was_not_asked_is_no_pass(changes: dict[str, Any], check: str) -> None:
    """The verdict is inconclusive; whether that refuses the version is the release file's policy."""
    verdict = judged(**changes)
    assert verdict.status == "inconclusive"
    assert statuses(verdict)[check] == "inconclusive"
    require_smoke_test(verdict, SmokeTest(), "digits", 2)
    with pytest.raises(SmokeTestInconclusiveError):
        require_smoke_test(verdict, SmokeTest(on_inconclusive="refuse"), "digits", 2)


def test_silence_is_no_excuse_for_what_was_seen_besides() -> None:
    """Answers that differ, errors and a dead server refuse a version of which some requests were not answered."""
    differ = judged(instances=instances(silent=2, differ=1, differences=["output y: off by 1"]))
    assert statuses(differ)["instances"] == "fail"
    assert statuses(judged(memory=memory(silent=2, failed=1)))["answers"] == "fail"
    died = {"message": "gRPC UNAVAILABLE", "silent": True, "died": "the server was ended by SIGSEGV"}
    assert statuses(judged(broken=died))["answers"] == "fail"


def test_one_instance_is_compared_with_nobody() -> None:
    """It passes, and the check says that there was nothing to compare it with."""
    verdict = judged(
        instances=instances(expected={"digits": 1}, seen={"digits": {"digits_0_0": 1}}, requests=1)
    )
    assert verdict.status == "pass"
    (told,) = (one.summary for one in verdict.checks if one.name == "instances")
    assert told == "1 instance, seen in the server's log, so nothing to compare it with"


@pytest.mark.parametrize(("policy", "status"), [("fail", "fail"), ("warn", "warn"), ("off", "pass")])
def test_a_policy_says_what_a_bad_check_does(policy: Any, status: str) -> None:
    """`warn` is a pass that says so; `off` is no part of the verdict."""
    assert judged(SmokeTest(memory_growth=policy), memory=growing(64.0)).status == status
    assert judged(SmokeTest(first_request=policy), loads=[SLOW] * 3).status == status


def test_a_first_answer_below_the_floor_is_fast_enough() -> None:
    """190 ms after 0.7 ms is no warning, 900 ms is one, unless it was so after one load of three alone."""
    assert judged(loads=[{**LOADED, "first_request_ms": 190.0}] * 3).status == "pass"
    assert statuses(judged(loads=[SLOW, SLOW, LOADED]))["first_request"] == "warn"
    assert judged(loads=[SLOW, LOADED, LOADED]).status == "pass"


def test_a_share_of_the_gpu_is_held_to_its_limit() -> None:
    """Asked where a limit is given; a pod without a GPU cannot tell."""
    limits = SmokeTest(gpu_memory_mib_max=100)
    used = {"before_bytes": 50 * 2**20, "after_bytes": 250 * 2**20}
    assert statuses(judged(limits, gpu=used))["gpu_memory"] == "fail"
    assert statuses(judged(SmokeTest(gpu_memory_mib_max=200), gpu=used))["gpu_memory"] == "pass"
    assert statuses(judged(limits))["gpu_memory"] == "inconclusive"


def test_growth_is_told_apart_from_what_fills_with_the_first_requests() -> None:
    """A cache that fills, and one outlier, are no growth; a slope that noise may explain is not decided."""
    filling = [[number * 40, 66.0 + (30.0 if number >= 5 else 6.0 * number)] for number in range(26)]
    filling[20][1] += 40
    verdict = judged(memory=memory(samples=filling))
    assert verdict.status == "pass"
    assert verdict.growth is not None
    assert verdict.growth.mib == pytest.approx(0.0)
    noisy = [[number * 40, 66.0 + 3 * (number * 7 % 11) + 0.3 * number] for number in range(26)]
    assert statuses(judged(memory=memory(samples=noisy)))["memory_growth"] == "inconclusive"


NOTHING_ASKED = {"requests": 0, "answered": 0, "p50_ms": None, "p90_ms": None, "differ": 0}


@pytest.mark.parametrize(
    ("changes", "check", "told"),
    [
        (
            {"steady": NOTHING_ASKED, "memory": memory(requests=0, samples=[])},
            "answers",
            "no golden row was asked after the first",
        ),
        ({"instances": instances(expected={}, seen={})}, "instances", "the server named no instance"),
        ({"instances": instances(requests=0)}, "instances", "no instance was asked"),
        (
            {"memory": memory(samples=[[number * 40, 0.0] for number in range(26)])},
            "memory_growth",
            "could not be read",
        ),
        ({"robustness": robustness()}, "robustness", "no boundary input was asked"),
    ],
)
def test_what_was_never_asked_is_no_pass(changes: dict[str, Any], check: str, told: str) -> None:
    """A part of the report that is there and holds nothing is inconclusive: nothing was found, and nothing shown."""
    verdict = judged(**changes)
    assert statuses(verdict)[check] == "inconclusive"
    assert verdict.status == "inconclusive"
    assert any(told in one for one in verdict.reasons), verdict.reasons


def test_more_answers_than_requests_are_no_report() -> None:
    """They would make up for requests that failed."""
    with pytest.raises(SlipwayError, match="41 of 40 requests"):
        judged(steady={**ABOVE, "answered": 41}, memory=memory(failed=1))


@pytest.mark.parametrize(("shm_size", "has"), [(None, "the node's 64 MiB"), ("128Mi", "128Mi")])
def test_too_little_shared_memory_names_the_key_to_raise(shm_size: str | None, has: str) -> None:
    """Triton names an option of Docker's, which a release file does not have."""
    limits = SmokeTest(shm_size=shm_size)
    told = "Unable to initialize shared memory key 'a' to requested size (1048576 bytes)"
    verdict = judged(limits, loads=[{**CRASHED, "status": "refused", "reason": told}])
    with pytest.raises(
        SmokeTestRefusedError, match=rf"The pod has {has} at /dev/shm: raise `smoke_test.shm_size`"
    ):
        require_smoke_test(verdict, limits, "digits", 2)
    with pytest.raises(SmokeTestRefusedError) as other:
        require_smoke_test(judged(loads=[CRASHED]), limits, "digits", 2)
    assert "shm_size" not in str(other.value)
