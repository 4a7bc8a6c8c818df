"""Other programs within limits: what they said, how they ended, and that nothing of them is left."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from slipway_pod.errors import PodError
from slipway_pod.program.limits import Limits
from slipway_pod.program.subprograms import (
    KEPT_LINES,
    LINE_CHARACTERS,
    TooMuchOutputError,
    run_builder,
    run_program,
)
from tests.support.python_programs import python_head

PYTHON = sys.executable


def script(folder: Path, text: str, name: str = "builder") -> str:
    """A program of that text; returns its path."""
    path = folder / name
    path.write_text(f"{python_head(PYTHON)}{text}\n")
    path.chmod(0o755)
    return str(path)


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def await_end(pid: int) -> bool:
    """Whether a process ends within 10 s."""
    ends_at = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < ends_at:
        time.sleep(0.05)
    return not is_alive(pid)


def test_what_a_program_said_and_ended_with(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both of its streams are kept line by line, and passed on only where that is wanted."""
    text = "import os, sys; print(os.environ['TOLD']); print(' words ', file=sys.stderr); sys.exit(3)"
    program = script(tmp_path, text)
    ended = run_program([program], 30, environment={"TOLD": "told"})
    assert (ended.code, sorted(ended.lines)) == (3, ["told", "words"])
    assert capfd.readouterr().out == ""
    run_program([program], 30, environment={"TOLD": "told"}, echo=True)
    assert "told" in capfd.readouterr().out


def test_the_end_of_much_output_is_kept(tmp_path: Path) -> None:
    """Of a talkative program the last lines are kept, those of its very end too."""
    program = script(tmp_path, "print(*range(100_000), sep='\\n')")
    lines = run_program([program], 30).lines
    assert len(lines) < 1000
    assert lines[-1] == "99999"


def test_a_line_that_does_not_end_is_kept_in_pieces(tmp_path: Path) -> None:
    """64 MiB without an end of line are not held in memory: as many pieces are kept as of lines."""
    program = script(tmp_path, "import sys\nfor _ in range(64): sys.stdout.write('x' * 2**20)\nprint('end')")
    held = psutil.Process().memory_info().rss
    lines = run_program([program], 50).lines
    assert psutil.Process().memory_info().rss - held < 32 * 2**20
    assert len(lines) == KEPT_LINES
    assert {len(line) for line in lines} <= {LINE_CHARACTERS, len(lines[-1])}
    assert lines[-1].endswith("end")


@pytest.mark.parametrize("text", ["while True: print('x' * 99)", "print('x' * 10_001)"])
def test_a_program_that_says_too_much_is_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    """At the limit of its output it is ended, and no more of it gets into the log; one that has ended is told too."""
    started = time.monotonic()
    with pytest.raises(TooMuchOutputError, match="10000 characters"):
        run_program([script(tmp_path, text)], 50, echo=True, most_characters=10_000)
    assert time.monotonic() - started < 40
    assert len(capfd.readouterr().out) < 11_000


def test_a_late_program_leaves_nothing(tmp_path: Path) -> None:
    """At the limit the program and what it has started are gone."""
    child = tmp_path / "child"
    text = (
        "import pathlib, subprocess, sys, time\n"
        f"started = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(child)!r}).write_text(str(started.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(TimeoutError):
        run_program([script(tmp_path, text)], 3)
    assert await_end(int(child.read_text()))


def test_a_program_that_hangs_after_it_gave_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has said that it failed is not waited for until the limit."""
    monkeypatch.setattr("slipway_pod.program.subprograms.HANG_GRACE_S", 0.2)
    program = script(tmp_path, "import time\nprint('thread [0] had error', flush=True)\ntime.sleep(60)")
    started = time.monotonic()
    ended = run_program([program], 50, gives_up=re.compile("had error"))
    assert (ended.code, ended.lines) == (-signal.SIGKILL, ("thread [0] had error",))
    assert time.monotonic() - started < 40


def test_a_program_dies_with_its_parent(tmp_path: Path) -> None:
    """Killed by force, a pod's program takes the one that it runs along: the kernel does that."""
    place = tmp_path / "pid"
    inner = script(
        tmp_path,
        "import os, pathlib, time\n"
        f"path = pathlib.Path({str(place)!r}); part = path.with_suffix('.part')\n"
        "part.write_text(str(os.getpid())); part.rename(path)\n"
        "time.sleep(60)",
    )
    outer = f"from slipway_pod.program.subprograms import run_program; run_program([{inner!r}], 60)"
    package = Path(sys.modules["slipway_pod"].__path__[0]).parent
    with subprocess.Popen([PYTHON, "-c", outer], cwd=package) as parent:
        while not place.exists():
            assert parent.poll() is None
            time.sleep(0.05)
        parent.kill()
    assert await_end(int(place.read_text()))


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("print('[I] fine'); print('[E] no such operator'); print('bye'); raise SystemExit(1)",
         "ModelInvalidError", "[E] no such operator"),
        ("raise SystemExit(1)", "ModelInvalidError", "no output"),
        ("held = bytearray(900 * 2**20)", "UserError", "an allocation that was refused"),
        ("print('out of memory'); print(*range(50), sep='\\n'); raise SystemExit(1)", "ModelInvalidError", "49"),
        ("import os; os.kill(os.getpid(), 11)", "ModelInvalidError", "SIGSEGV"),
        ("import time; time.sleep(60)", "TimedOutError", "still at work, and ended"),
    ],
    ids=["refuses", "says nothing", "eats", "warns of memory long before", "crashes", "hangs"],
)  # fmt: skip
def test_why_a_builder_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: str, found: str
) -> None:
    """The error tells the limit that a builder ran into, or what of its last words sounds most like the cause."""
    script(tmp_path, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PodError) as raised:
        run_builder(["builder"], Limits(4 if kind == "TimedOutError" else 60, memory_mib=400))
    assert (raised.value.kind, raised.value.found) == (kind, found)
    assert "'builder'" in raised.value.what


def test_builders_share_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one builder took is gone for the next."""
    script(tmp_path, "import time; time.sleep(0.3)")
    monkeypatch.setenv("PATH", str(tmp_path))
    limits = Limits(60)
    run_builder(["builder"], limits)
    assert limits.left_s < 59.7


def test_an_image_without_the_builder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is not there is the image's fault."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PodError, match="no program 'builder'") as raised:
        run_builder(["builder"], Limits(60))
    assert raised.value.kind == "UserError"
