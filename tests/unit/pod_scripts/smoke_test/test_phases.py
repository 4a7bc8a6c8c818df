"""What a smoke test reads from a server's configuration and log, and from /proc."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slipway_pod.smoke_test.memory import resident_mib
from slipway_pod.smoke_test.phases import executions, instances_of, streams

LOG = """
I1122 20:00:01.1 7 python_be.cc:1419] "model digits, instance digits_0_0, executing 2 requests"
I1122 20:00:01.2 7 python_be.cc:1419] "model digits, instance digits_0_1, executing 1 requests"
I1122 20:00:01.3 7 python_be.cc:1419] "model scale, instance scale_0_0, executing 1 requests"
I1122 20:00:01.4 7 python_be.cc:1419] "model digits, instance digits_0_0, executing 3 requests"
"""


def test_who_answered_is_read_from_the_log() -> None:
    """Each instance of each model with the requests that it was given."""
    assert executions(LOG) == {"digits": {"digits_0_0": 5, "digits_0_1": 1}, "scale": {"scale_0_0": 1}}


@pytest.mark.parametrize(
    ("groups", "number"),
    [
        ([], 0),
        ([{"count": 3, "kind": "KIND_CPU"}], 3),
        ([{"count": 2, "kind": "KIND_GPU", "gpus": [0, 1]}, {"count": 1}], 5),
        ([{"count": 2}, {"count": 4, "passive": True}], 2),
    ],
)
def test_instances_are_counted_for_each_gpu(groups: list[dict[str, object]], number: int) -> None:
    """A group makes its count on each of its GPUs; a passive one answers nothing."""
    assert instances_of({"instance_group": groups}) == number


def test_a_model_of_streams_is_known_by_any_of_its_members() -> None:
    """An ensemble answers in streams when one of its members does."""
    decoupled = {"model_transaction_policy": {"decoupled": True}}
    assert streams({"top": {}, "member": decoupled})
    assert not streams({"top": {"model_transaction_policy": None}})


def test_the_memory_of_a_session_has_that_of_its_children() -> None:
    """What a child of the server takes is the server's, and a session that has ended takes nothing."""
    child = "x = bytearray(48 * 2**20); print('ready', flush=True); input()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert resident_mib(process.pid) > 48
        process.communicate(b"\n")
    assert resident_mib(process.pid) == 0
