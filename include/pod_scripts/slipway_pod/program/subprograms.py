"""Other programs, run within limits of time and memory; no process of theirs remains."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from slipway_pod.errors import PodError
from slipway_pod.program.keys import without_keys
from slipway_pod.program.limits import OUT_OF_MEMORY, Limits, crash_error, memory_error, time_error
from slipway_pod.program.progress import say

LAUNCHER = Path(__file__).with_name("launch.py")
KEPT_LINES = 400
# A longer line is read, printed and kept in pieces: a program may never end one.
LINE_CHARACTERS = 8192
# How long to wait for a program that has given up, but hangs.
HANG_GRACE_S = 5.0
# How long the rest of the output of a program that has ended may take.
LAST_OUTPUT_S = 5.0
# A builder warns of tactics that ran out of memory long before another fault ends it: only its end is looked at.
BUILDERS_LAST_LINES = 40
TELLING_LINE = re.compile(r"\[!\]|\[E\]|\berror\b", re.IGNORECASE)


class TooMuchOutputError(Exception):
    """A program has said more than it may."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code (below 0: the signal), and the last lines of what it said."""

    code: int
    lines: Sequence[str]


def require_program(name: str, remedy: str) -> str:
    """Return the program's full path.

    :raises PodError: of kind UserError, the image does not hold it.
    """
    path = shutil.which(name)
    if path is None:
        found = os.environ.get("PATH", "")
        what, expected = f"This image has no program {name!r}", f"{name} on PATH"
        raise PodError("UserError", what, expected=expected, found=found, remedy=remedy)
    return path


def run_program(
    command: Sequence[str],
    limit_s: float,
    *,
    environment: Mapping[str, str] | None = None,
    memory_mib: int = 0,
    echo: bool = False,
    gives_up: re.Pattern[str] | None = None,
    most_characters: int | None = None,
) -> Ended:
    """Run a program, given by its full path, to its end; it and all that it started are gone afterwards.

    It has this program's environment but for the keys, with what `environment` adds.

    memory_mib: of private writable memory; 0 sets no limit. echo: passes its output on, line by line.
    gives_up: what it says before it hangs; then it is ended, and its code is that of SIGKILL.
    most_characters: of its output; None sets no limit.

    :raises TimeoutError: after `limit_s`.
    :raises TooMuchOutputError: it has said more than it may, and was ended.
    """
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(memory_mib * 2**20)]
    process = subprocess.Popen(
        [*launcher, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**without_keys(os.environ), **(environment or {})},
        # A group of its own, so that what it starts can be ended with it.
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101  it is a pipe
    output = _Output(echo, gives_up, most_characters)
    reader = threading.Thread(target=output.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        code = _wait_for_end(process, output, limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(LAST_OUTPUT_S)
    if output.is_too_much:
        raise TooMuchOutputError(f"more than {most_characters} characters")
    return Ended(code, tuple(output.lines))


@dataclass
class _Output:
    """The output of a program: passed on where that is wanted, its end kept, and whether it has given up."""

    echo: bool
    gives_up: re.Pattern[str] | None
    most_characters: int | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    has_given_up: bool = False
    is_too_much: bool = False

    def read(self, stream: IO[str]) -> None:
        """Read to the end; what is too much is read as well, so that the program can end, and not kept."""
        characters = 0
        while line := stream.readline(LINE_CHARACTERS):
            characters += len(line)
            self.is_too_much = self.most_characters is not None and characters > self.most_characters
            if not self.is_too_much:
                self._take(line)

    def _take(self, line: str) -> None:
        text = line.strip()
        if self.echo:
            print(line.rstrip(), flush=True)
        if text:
            self.lines.append(text)
        if self.gives_up is not None and self.gives_up.search(text):
            self.has_given_up = True


def _wait_for_end(process: subprocess.Popen[str], output: _Output, limit_s: float) -> int:
    ends_at = time.monotonic() + limit_s
    while (left_s := ends_at - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(0.5, left_s))
        if output.is_too_much:
            return -signal.SIGKILL
        if output.has_given_up:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(HANG_GRACE_S, left_s))
            return -signal.SIGKILL
    raise TimeoutError(f"{process.args!r} did not end within {limit_s:g} s")


def run_builder(command: Sequence[str], limits: Limits, environment: Mapping[str, str] | None = None) -> None:
    """Run a builder of engines to its end, its output into the log.

    Raises PodError: it is not there, it took too long or too much memory, it crashed, or it refused the model.
    """
    name = command[0]
    path = require_program(name, "use the image that belongs to this program, see include/images")
    say("build", " ".join(command))
    with limits.spend() as limit_s:
        try:
            ended = run_program(
                [path, *command[1:]],
                limit_s,
                environment=environment,
                memory_mib=limits.memory_mib or 0,
                echo=True,
            )
        except TimeoutError:
            remedy = "raise conversion.timeout_s in the release file, or keep a timing cache"
            raise time_error(name, limit_s, limits, remedy) from None
    if ended.code != 0:
        raise _builder_error(name, ended, limits)


def _builder_error(name: str, ended: Ended, limits: Limits) -> PodError:
    """Return the error for a builder that failed, with the line of its output that most likely names the cause."""
    lines = ended.lines[-BUILDERS_LAST_LINES:]
    if any(OUT_OF_MEMORY.search(line) for line in lines):
        return memory_error(name, limits)
    if ended.code < 0:
        return crash_error(name, ended.code)
    telling = [line for line in lines if TELLING_LINE.search(line)]
    return PodError(
        "ModelInvalidError",
        f"The tool {name!r} failed (exit code {ended.code})",
        expected="an engine",
        found=(telling or list(lines) or ["no output"])[-1][:300],
        remedy="read the pod's log; TensorRT knows fewer operators and types than ONNX Runtime",
    )
