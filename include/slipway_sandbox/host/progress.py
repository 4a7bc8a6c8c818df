"""How the sandbox's commands say what they are doing: live lines on a terminal, plain ones elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console

POLL_INTERVAL_S = 0.3
REPORT_EVERY_S = 15.0
"""Where no terminal shows it all the time, how often is said what is waited for."""


class WaitFailedError(Exception):
    """Something does not become ready, or cannot any more; the message names it and where to look."""


class Stall:
    """How long nothing has moved.

    :param limit_s: how long is long enough to give up.
    :param clock: seconds that only go forward.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_s, self._clock = limit_s, clock
        self._seen: object = None
        self._since = clock()

    def observe(self, state: object) -> float:
        """Return for how many seconds nothing has moved.

        :param state: what moves; it has moved where it differs from what it was the last time.
        """
        if state != self._seen:
            self._seen, self._since = state, self._clock()
        return self._clock() - self._since


class Steps:
    """Prints one line for each step: what it is, and how long it took.

    :param clock: seconds that only go forward.
    :param sleep: waits so many seconds.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.console = console or Console(highlight=False)
        self._clock, self._sleep = clock, sleep

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show the title while the block runs, then a mark with the time it took."""
        started = self._clock()
        try:
            with self.console.status(title):
                yield
        except BaseException:
            self.console.print(f"[red]✗[/] {title} [dim]{self._clock() - started:.1f} s[/]")
            raise
        self.console.print(f"[green]✓[/] {title} [dim]{self._clock() - started:.1f} s[/]")

    def wait_for_all(
        self,
        checks: Mapping[str, Callable[[], bool]],
        stall_limit_s: float,
        failure: Callable[[], str | None],
        *,
        limit_s: float = math.inf,
        moves: Callable[[list[str]], object] = lambda waiting: None,
        last_words: Callable[[list[str]], str] = lambda waiting: "",
    ) -> None:
        """Wait until every check has once been true, for as long as anything moves, and show which are not yet.

        :param stall_limit_s: for how long nothing may move: no check becomes true, and `moves` returns the same.
        :param failure: says why there is no point in waiting longer; None: there is.
        :param limit_s: after so long the wait ends in any case.
        :param moves: returns what changes while those that are waited for get on.
        :param last_words: what else an error says of those that are waited for, such as the end of their logs.
        :raises WaitFailedError: with that reason, or with the names of what did not become ready.
        """
        started, waiting = self._clock(), dict(checks)
        stall, reported_s = Stall(stall_limit_s, self._clock), started
        with self.console.status("") as status:
            while True:
                for name in [name for name, check in waiting.items() if check()]:
                    del waiting[name]
                    self.console.print(f"[green]✓[/] {name} [dim]{self._clock() - started:.1f} s[/]")
                if not waiting:
                    return
                reason = failure()
                still = stall.observe((tuple(waiting), moves(list(waiting))))
                waited, names = self._clock() - started, ", ".join(waiting)
                line = f"Waiting for {names} [dim]{waited:.0f} s; nothing has moved for {still:.0f} s[/]"
                status.update(line)
                if not self.console.is_terminal and self._clock() - reported_s >= REPORT_EVERY_S:
                    reported_s = self._clock()
                    self.console.print(line)
                if reason is None and (still > stall_limit_s or waited > limit_s):
                    reason = f"Not ready after {waited:.0f} s: {names}. {_why(still, stall_limit_s, limit_s)}"
                    reason += last_words(list(waiting))
                if reason is not None:
                    raise WaitFailedError(reason)
                self._sleep(POLL_INTERVAL_S)


def _why(still_s: float, stall_limit_s: float, limit_s: float) -> str:
    if still_s > stall_limit_s:
        return f"Nothing has moved for {still_s:.0f} s, and the limit is {stall_limit_s:.0f} s."
    return f"The limit is {limit_s:.0f} s in all."
