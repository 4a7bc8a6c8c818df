"""The fuzz lane finds what it is for: untyped errors, endless loops, too much memory, and readers that kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fuzz import pool
from benchmarks.fuzz.report import save, table
from benchmarks.fuzz.target import Target, input_of
from benchmarks.fuzz.targets import TARGETS
from benchmarks.fuzz.worker import seeds_that_fail
from slipway_core.errors import UserError

COUNT = 30


def target_of(read: Callable[[Any], object]) -> Target:
    """A target whose input number k is k, after a seed."""
    return Target("made_up", lambda: [0], lambda rng, _: rng.randrange(10**6), read)


def tenth(act: Callable[[], object]) -> Callable[[Any], object]:
    """A reader that does `act` for the input with number 10 alone, and refuses every other odd one."""
    chosen = input_of(target_of(id), [0], 1, 10)

    def read(value: Any) -> object:
        if value == chosen:
            return act()
        if value % 2:
            raise UserError("odd")
        return value

    return read


def _fail() -> None:
    raise KeyError("weight")


def _loop() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        pytest.param(_fail, "KeyError", id="an untyped error"),
        pytest.param(_loop, "more than 1 s of CPU", id="a loop"),
        pytest.param(lambda: bytearray(4 * 1024**3), "MemoryError", id="memory"),
        pytest.param(lambda: os._exit(3), "the process died (3)", id="a crash"),
    ],
)
def test_one_bad_input_is_found_and_the_others_are_read_all_the_same(act: Any, kind: str) -> None:
    """The input is named by its number, and what comes behind it is read."""
    outcome = pool.run(target_of(tenth(act)), seed=1, count=COUNT, seconds=60)
    assert [(finding.index, finding.kind) for finding in outcome.findings] == [(10, kind)]
    assert outcome.tally.inputs >= COUNT - 11


def test_typed_errors_are_counted_and_are_no_findings() -> None:
    """A run without a finding tells how many inputs were taken, and by which errors the others were refused."""
    outcome = pool.run(target_of(tenth(lambda: None)), seed=1, count=COUNT, seconds=60)
    assert outcome.findings == []
    assert outcome.tally.inputs == COUNT == outcome.tally.accepted + outcome.tally.refused["UserError"]
    assert "UserError" in table([outcome])


def test_what_failed_is_made_small_and_kept(tmp_path: Path) -> None:
    """Of a long input the part is told that still fails, with the command that repeats the whole."""

    def read(value: bytes) -> None:
        if b"x" in value:
            raise KeyError("x")

    target = Target("made_up", lambda: [b""], lambda rng, _: b"a" * 500 + b"x" + b"a" * 500, read)
    (finding,) = pool.run(target, seed=4, count=3, seconds=60).findings
    assert finding.shown == "b'x'"
    assert "KeyError" in save(finding, tmp_path)
    assert "--only made_up --seed 4 --show 1" in (tmp_path / "made_up-4-1.txt").read_text()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))
def test_every_target_reads_its_own_seeds(target: Target) -> None:
    """What a target begins with is valid, so that its changes get past the first check."""
    assert seeds_that_fail(target) == []


def test_seeds_that_are_refused_are_told() -> None:
    """A target whose own seeds are refused would test nothing behind its first check."""
    assert seeds_that_fail(target_of(lambda value: value)) == []
    assert len(seeds_that_fail(target_of(lambda value: value / 0))) == 1
