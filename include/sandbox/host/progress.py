"""How the sandbox's commands say what they are doing: live lines on a terminal, plain ones elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console

POLL_INTERVAL_S = 0.3


class WaitFailedError(Exception):
    """Something did not become ready in time, or cannot any more; the message names it and where to look."""


class Steps:
    """Prints one line for each step: what it is, and how long it took."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show the title while the block runs, then a mark with the time it took."""
        started = time.monotonic()
        try:
            with self.console.status(title):
                yield
        except BaseException:
            self.console.print(f"[red]✗[/] {title} [dim]{time.monotonic() - started:.1f} s[/]")
            raise
        self.console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - started:.1f} s[/]")

    def wait_for_all(
        self, checks: Mapping[str, Callable[[], bool]], timeout_s: float, failure: Callable[[], str | None]
    ) -> None:
        """Wait until every check has once been true, and show which are.

        `failure` may say why there is no point in waiting longer. Raises WaitFailedError with that, or with
        the names
        of those that were not ready after `timeout_s`.
        """
        started, waiting = time.monotonic(), dict(checks)
        with self.console.status("") as status:
            while waiting:
                status.update("Waiting for " + ", ".join(waiting))
                for name in [name for name, check in waiting.items() if check()]:
                    del waiting[name]
                    self.console.print(f"[green]✓[/] {name} [dim]{time.monotonic() - started:.1f} s[/]")
                reason = failure() if waiting else None
                if reason is None and waiting and time.monotonic() - started > timeout_s:
                    reason = f"Not ready after {timeout_s:.0f} s: {', '.join(waiting)}."
                if reason is not None:
                    raise WaitFailedError(reason)
                if waiting:
                    time.sleep(POLL_INTERVAL_S)
