"""A sandbox that starts is waited for as long as it gets on."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from slipway_sandbox import lifecycle
from slipway_sandbox.host.progress import Steps, WaitFailedError
from slipway_sandbox.host.settings import SandboxSettings
from slipway_sandbox.host.starting import PARTS, log_end, movement
from tests.support.waiting import wait_until

LIMIT_S = 180.0


class Time:
    """A clock that goes on only when somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.screen = io.StringIO()

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 1.0)

    def wait(
        self, ready: Callable[[float], bool], moves: Callable[[float], object], **options: float
    ) -> None:
        """Wait for one part."""
        steps = Steps(
            Console(file=self.screen, width=200, force_terminal=False), clock=self.clock, sleep=self.sleep
        )
        steps.wait_for_all(
            {"Airflow": lambda: ready(self.now_s)},
            LIMIT_S,
            lambda: None,
            moves=lambda waiting: moves(self.now_s),
            last_words=lambda waiting: f" The end of the log of {', '.join(waiting)}.",
            **options,
        )


def test_what_gets_on_is_waited_for_however_long_it_takes() -> None:
    """Twenty minutes on a busy machine are no failure; what is waited for is said, and for how long."""
    time = Time()
    time.wait(lambda now: now > 1200, lambda now: now // 100)
    told = time.screen.getvalue()
    assert "Waiting for Airflow 15 s; nothing has moved for 15 s" in told
    assert "✓ Airflow 1201.0 s" in told


def test_what_does_not_move_is_given_up() -> None:
    """After the limit the error names the part, how long it was waited for, and the end of its log."""
    time = Time()
    with pytest.raises(WaitFailedError) as failed:
        time.wait(lambda now: False, lambda now: min(now, 100) // 10)
    assert str(failed.value) == (
        "Not ready after 281 s: Airflow. Nothing has moved for 181 s, and the limit is 180 s. "
        "The end of the log of Airflow."
    )
    assert time.now_s < 300


def test_what_turns_in_a_circle_is_given_up_in_the_end() -> None:
    """A program that uses a processor for ever is not waited for for ever."""
    time = Time()
    with pytest.raises(WaitFailedError, match="The limit is 1800 s in all"):
        time.wait(lambda now: False, lambda now: now, limit_s=1800.0)


def test_a_program_that_works_moves_and_one_that_sleeps_does_not() -> None:
    """What a program does is read off the processor time that it and its children use; one that ended does nothing."""
    program = (sys.executable, "-c", "import sys\nprint(flush=True)\nsys.stdin.read(1)\nwhile True: pass")
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdin is not None
            assert busy.stdout is not None
            assert busy.stdout.readline() == b"\n"
            before = movement([busy.pid])
            assert movement([busy.pid]) == before
            busy.stdin.write(b"x")
            busy.stdin.flush()
            wait_until(lambda: movement([busy.pid]) != before, limit_s=120)
        finally:
            busy.kill()
    assert movement([busy.pid]) == (0,)


def test_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    """The last lines alone, of a log of any size; an empty one is said to be, and one that is not there is left out."""
    (tmp_path / "router.log").write_text("\n".join(f"line {number}" for number in range(100_000)))
    (tmp_path / "guard.log").write_text("")
    told = log_end(tmp_path, "router").splitlines()
    assert told[1] == f"The end of {tmp_path / 'router.log'}:"
    assert (len(told), told[-1]) == (14, "line 99999")
    assert log_end(tmp_path, "guard").endswith("guard.log is empty.")
    assert log_end(tmp_path, "cluster") == ""


def test_every_part_that_is_waited_for_has_its_programs(tmp_path: Path) -> None:
    """The parts that `make up` names are made of the programs that the supervisor runs, each of one part."""
    settings = SandboxSettings.prepare(tmp_path, dict(os.environ))
    assert set(PARTS) == set(lifecycle.program_checks(settings))
    programs = [program for part in PARTS.values() for program in part]
    assert sorted(programs) == sorted(one.name for one in lifecycle.programs(settings))
