"""The guard from the command line; see `python -m slipway_guard --help`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from slipway_core.errors import ClusterUnavailableError, SpecError
from slipway_core.lease_limits import DEFAULT_LEASE_S
from slipway_guard import log
from slipway_guard.cluster import Cluster, connect
from slipway_guard.heartbeat import Heartbeat
from slipway_guard.log import say
from slipway_guard.watch import Guard, Sight, Terms

# Between two looks while a canary is being ended: to see the traffic move, not to wait for it.
_ENDING_POLL_S = 0.25
# How long --once sees a canary to weight 0 beyond the time for which it watches leases.
_ENDING_LIMIT_S = 60.0
_REMIND_S = 60.0
# How long the guard's last heartbeat is waited for at its end.
_HEARTBEAT_LIMIT_S = 5.0

_WHAT = """\
Ends canaries that nobody drives any more. While a release of Slipway leads users to a candidate, it renews a
Lease; when that is not renewed for as long as it lasts, the guard marks it ended and takes the candidate to 0 %
of the traffic. It touches nothing else, and leaves the rest of the rollback to the release."""
_EXIT_CODES = """\
exit codes:
  0  ended by SIGTERM or SIGINT; with --once: every canary is driven by somebody, or was ended
  1  with --once: the API did not answer, a canary did not get to weight 0, or the watch was broken off
  2  wrong arguments, or no way to reach the cluster is known

A canary without a Lease is one whose Lease ran out. The guard trusts no clock but its own: a Lease that it has
watched unchanged for as long as it lasts has run out, whatever time is written in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the guard; return its exit code."""
    options = _parser().parse_args(arguments)
    log.set_up(options.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        cluster = Cluster(connect(options.kubeconfig), tuple(options.namespace))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2
    terms = Terms(options.lease_grace_s, options.missing_lease_s, options.poll_s)
    say("started", namespaces=options.namespace or "all", once=options.once, **vars(terms))
    heartbeat = Heartbeat(cluster)
    look = _Looker(Guard(cluster, terms), options.alive_file, heartbeat.beat)
    code = watch_once(look, terms, stop) if options.once else watch(look, terms, stop)
    heartbeat.finish(_HEARTBEAT_LIMIT_S)
    say("stopped", exit_code=code)
    return code


class _Looker:
    """Looks, and keeps looking if the API does not answer; None is a look that saw nothing."""

    def __init__(self, guard: Guard, alive_file: Path | None, beat: Callable[[], None]) -> None:
        self._guard, self._beat = guard, beat
        self._alive_file = alive_file
        self._trouble = ""
        self._reminded_at_s = 0.0

    def __call__(self) -> Sight | None:
        self._touch()
        try:
            sight = self._guard.look()
        except ClusterUnavailableError as error:
            self._complain(str(error))
            return None
        if self._trouble:
            self._trouble = ""
            say("api_back")
        self._beat()
        return sight

    def _complain(self, trouble: str) -> None:
        now_s = time.monotonic()
        if trouble != self._trouble or now_s - self._reminded_at_s > _REMIND_S:
            self._trouble, self._reminded_at_s = trouble, now_s
            say("api_unavailable", logging.ERROR, found=trouble)

    def _touch(self) -> None:
        """Show a probe that the loop goes round, with or without an API to look at."""
        if self._alive_file is not None:
            try:
                self._alive_file.touch()
            except OSError as error:
                say("alive_file_not_touched", logging.ERROR, found=str(error))


def watch(look: Callable[[], Sight | None], terms: Terms, stop: threading.Event) -> int:
    """Look until told to stop."""
    while not stop.wait(_pause_s(look(), terms)):
        pass
    return 0


def watch_once(look: Callable[[], Sight | None], terms: Terms, stop: threading.Event) -> int:
    """Look for as long as the longest lease lasts, or until no canary is under way. Return the exit code."""
    began_s, longest_s = time.monotonic(), 0.0
    while True:
        sight = look()
        if sight is not None:
            if sight.canaries == 0:
                return 0
            longest_s = max(longest_s, sight.longest_lease_s)
        limit_s = (longest_s or terms.missing_lease_s) + terms.grace_s + 3 * terms.poll_s
        over_s = time.monotonic() - began_s - limit_s
        if over_s > 0 and sight is not None and sight.ending == 0:
            return 1 if sight.left_alone else 0
        if over_s > _ENDING_LIMIT_S or stop.wait(_pause_s(sight, terms)):
            return 1


def _pause_s(sight: Sight | None, terms: Terms) -> float:
    return min(terms.poll_s, _ENDING_POLL_S) if sight is not None and sight.ending else terms.poll_s


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slipway_guard",
        description=_WHAT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="a namespace to watch; can be given more than once (default: all)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="watch for as long as the longest lease lasts, then end (for a CronJob); without a canary, end at once",
    )
    parser.add_argument(
        "--poll-s", type=_positive, default=2.0, metavar="SECONDS", help="between two looks (default: 2)"
    )
    parser.add_argument(
        "--lease-grace-s",
        type=_not_negative,
        default=0.0,
        metavar="SECONDS",
        help="how much longer than it lasts a lease may go unrenewed (default: 0)",
    )
    parser.add_argument(
        "--missing-lease-s",
        type=_positive,
        default=float(DEFAULT_LEASE_S),
        metavar="SECONDS",
        help=f"how long a canary may be without a lease (default: {DEFAULT_LEASE_S})",
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="how to reach the cluster (default: the pod's service account)"
    )
    parser.add_argument(
        "--alive-file", type=Path, metavar="FILE", help="touched at every look, for a liveness probe"
    )
    parser.add_argument("--log-level", choices=("info", "warning", "error"), default="info")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, found {text}")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, found {text}")
    return value


if __name__ == "__main__":
    sys.exit(main())
