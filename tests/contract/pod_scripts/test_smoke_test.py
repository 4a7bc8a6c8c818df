"""smoke_test.py with a real tritonserver: what it says of a sound model, and of those that harm their server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.pods.smoke_models import WARMUP, put_model
from tests.support.pods.support import ObjectStore, Pod

pytestmark = pytest.mark.timeout(600)


def smoke(
    pod: Pod, store: ObjectStore, name: str, prefix: str, *options: str, **model: Any
) -> dict[str, Any]:
    """The result of the program over the model of one fault; a server that dies is no failure of the program."""
    source, golden, digest = put_model(store, name, **model)
    given = ("--source", source, "--golden", golden, "--manifest-sha256", digest, "--loads", "1")
    run = pod.run("smoke_test.py", *given, "--requests", "50", *options, prefix=prefix)
    assert run.exit_code == 0, run.stdout + run.stderr
    assert run.result is not None
    return run.result


def test_a_sound_model_answers_everything(smoke_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """Every load succeeds, each instance answers alike, and no boundary input ends or changes the server."""
    result = smoke(smoke_pod, store, "sound", prefix, "--loads", "2", instances=3, more=WARMUP)
    assert [one["status"] for one in result["loads"]] == ["loaded", "loaded"]
    assert all(one["first_request_ms"] > 0 for one in result["loads"])
    assert result["steady"]["answered"] == result["steady"]["requests"]
    assert result["instances"]["expected"] == {"sound": 3}
    assert set(result["instances"]["seen"]["sound"]) == {"sound_0_0", "sound_0_1", "sound_0_2"}
    assert result["instances"]["differ"] == 0
    assert (result["memory"]["requests"], result["memory"]["failed"]) == (50, 0)
    probes = result["robustness"]["probes"]
    assert not [one for one in probes if one["died"] or one["golden"] or one["outcome"] == "silent"]
    found = {(one["name"], one["via"]): one["outcome"] for one in probes}
    assert found["the largest batch", "grpc"] == found["NaN", "http"] == "answered"
    assert found["one row more than the largest batch", "http"] == found["no JSON", "http"] == "refused"


def test_a_warm_up_that_ends_the_server_is_told(smoke_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """The load is `crashed`, with the signal and lines of the server's log, and nothing else is asked."""
    result = smoke(smoke_pod, store, "cold", prefix, "--loads", "3", more=WARMUP)
    (load,) = result["loads"]
    assert load["status"] == "crashed"
    assert "SIGSEGV" in load["reason"]
    assert load["log"]
    assert "robustness" not in result


def test_a_warm_up_that_fails_is_told(smoke_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """A warm-up whose request fails is no load, whether the server refuses it or dies of it."""
    result = smoke(smoke_pod, store, "refusing", prefix, more=WARMUP)
    (load,) = result["loads"]
    assert load["status"] in ("refused", "crashed")
    assert any("no zeros, please" in line for line in (load["reason"], *load["log"]))


def test_what_one_server_dies_of_another_one_goes_on_from(
    smoke_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """Each input that ends the server is named, and the inputs behind it are asked of a new one."""
    result = smoke(smoke_pod, store, "mortal", prefix)
    probes = result["robustness"]["probes"]
    dead = [(one["name"], one["via"]) for one in probes if one["died"]]
    assert dead == [("NaN", "grpc"), ("NaN", "http"), ("infinity", "grpc")]
    assert all("SIGSEGV" in one["died"] for one in probes if one["died"])
    assert result["robustness"]["left_out"] > 0
    assert result["robustness"]["reason"]


def test_memory_and_instances_are_measured(smoke_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """64 KiB a request that nobody gives back are seen in the samples."""
    result = smoke(smoke_pod, store, "leaking", prefix, "--requests", "400")
    (_, first), *_, (sent, last) = result["memory"]["samples"]
    assert sent == 400
    assert 15 < last - first < 40


def test_a_server_that_dies_of_golden_requests_is_told(
    smoke_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """No boundary input is blamed for it: none is asked."""
    result = smoke(smoke_pod, store, "tired", prefix)
    assert "SIGSEGV" in result["memory"]["ended"]
    assert "robustness" not in result


def test_an_instance_that_answers_otherwise_is_noticed(
    smoke_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """One row, asked of all instances, has answers that differ."""
    result = smoke(smoke_pod, store, "uneven", prefix, instances=2)
    assert len(result["instances"]["seen"]["uneven"]) == 2
    assert result["instances"]["differ"] > 0
    assert result["instances"]["differences"] == ["output y: off by 1"]


@pytest.mark.parametrize("instances", [1, 2])
def test_a_slow_model_is_waited_for_as_long_as_it_takes(
    smoke_pod: Pod, store: ObjectStore, prefix: str, instances: int
) -> None:
    """Many requests at once wait for each other: none is silent, and none differs, at a limit of one answer alone."""
    options = ("--request-timeout-s", "1", "--requests", "12")
    result = smoke(smoke_pod, store, "slow", prefix, *options, instances=instances)
    found, memory = result["instances"], result["memory"]
    assert (found["silent"], found["differ"], found["differences"]) == (0, 0, [])
    assert len(found["seen"]["slow"]) == instances
    assert found["requests"] == 1 if instances == 1 else found["requests"] >= 2 * instances
    assert result["steady"]["silent"] == memory["silent"] == memory["failed"] == 0
    assert memory["requests"] == 12
    assert not [
        one for one in result["robustness"]["probes"] if one["outcome"] == "timed out" or one["stuck"]
    ]


def test_an_input_that_is_not_answered_in_time_is_told_as_that(
    smoke_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """No answer within the limit is neither silence of a broken server nor another answer to the golden row."""
    result = smoke(smoke_pod, store, "brooding", prefix, "--request-timeout-s", "1")
    found = {(one["name"], one["via"]): one for one in result["robustness"]["probes"]}
    assert found["NaN", "grpc"]["outcome"] == found["NaN", "http"]["outcome"] == "timed out"
    assert {one["died"] for one in found.values()} == {one["golden"] for one in found.values()} == {""}
    assert found["NaN", "grpc"]["stuck"]
    assert "answered no more" in result["robustness"]["reason"]


def test_another_manifest_is_refused(smoke_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """The version that is loaded is the one whose manifest the release has verified."""
    source, golden, _ = put_model(store, "sound")
    given = ("--source", source, "--golden", golden, "--manifest-sha256", "0" * 64)
    run = smoke_pod.run("smoke_test.py", *given, prefix=prefix)
    assert run.error["kind"] == "VersionConflictError"
    assert not list(Path("/dev/shm").glob("slipway-smoke-*"))
