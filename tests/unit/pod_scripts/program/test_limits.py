"""Tools within limits of time and memory, each in a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import time
from typing import Any

import pytest

from slipway_pod.errors import PodError
from slipway_pod.program.limits import Limits, is_out_of_memory


def refuse() -> None:
    raise PodError("GoldenSetError", "no rows", expected="some", found="none", remedy="add some")


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refused_memory() -> None:
    raise RuntimeError("the library gave up") from MemoryError()


@pytest.mark.parametrize(
    ("act", "kind", "found"),
    [
        (refuse, "GoldenSetError", "none"),
        (crash, "ModelInvalidError", "SIGKILL (most often: out of memory)"),
        (lambda: os._exit(7), "ModelInvalidError", "exit code 7"),
        (refused_memory, "UserError", "an allocation that was refused"),
        (lambda: {}["absent"], "SlipwayError", "KeyError: 'absent'"),
    ],
    ids=["refuses", "is killed", "ends", "lacks memory", "fails"],
)
def test_why_a_tool_failed(act: Any, kind: str, found: str) -> None:
    """What goes wrong in a tool's own process is told in this one: its refusal, its crash, its own fault."""
    with pytest.raises(PodError) as raised:
        Limits(60).run("tool", act)
    assert (raised.value.kind, raised.value.found) == (kind, found)


def test_tools_share_their_time() -> None:
    """What one tool took is gone for the next, and the error names what that one had."""
    limits = Limits(60)
    assert limits.run("first", lambda: time.sleep(0.2) or "answer") == "answer"
    assert limits.left_s < 59.9
    limits.left_s = 0.1
    with pytest.raises(PodError) as raised:
        limits.run("second", lambda: time.sleep(3600))
    assert (raised.value.kind, raised.value.exit_code) == ("TimedOutError", 75)
    assert "'second'" in raised.value.what
    assert raised.value.expected == "an end within 0.1 s (all tools: 60 s)"
    assert limits.left_s == 0


def test_a_tool_may_have_a_share_of_the_time() -> None:
    """A tool that need not succeed leaves time for what follows."""
    limits = Limits(2)
    with pytest.raises(PodError, match=r"within 0\.2 s"):
        limits.run("optional", lambda: time.sleep(3600), share_of_time=0.1)
    assert limits.left_s > 1


def test_a_tool_that_eats_memory_ends() -> None:
    """More memory than the limit is refused to the tool alone, and the error names the limit."""
    with pytest.raises(PodError) as raised:
        Limits(60, memory_mib=64).run("tool", lambda: len(bytearray(256 * 2**20)))
    assert (raised.value.kind, raised.value.expected) == ("UserError", "at most 64 MiB")


def test_memory_is_limited_for_the_tool_only() -> None:
    """The limit holds while the tool is at work; what went wrong is told with all memory again."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with Limits(60, memory_mib=65536).restricted_memory():
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 65536 * 2**20
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("std::bad_alloc", True),
        ("CUDA out of memory", True),
        ("DefaultCPUAllocator: can't allocate memory", True),
        ("the memory of the model is bad", False),
    ],
)
def test_the_words_of_libraries_for_no_memory(text: str, is_one: bool) -> None:
    """An allocation that was refused is told apart from other faults by what libraries call it."""
    assert is_out_of_memory(RuntimeError(text)) is is_one
