"""How far apart clocks may be."""

from __future__ import annotations

from datetime import datetime, timedelta

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status

# An HTTP date has whole seconds, and the answer is on its way for a while.
_TOLERATED = timedelta(seconds=5)
# AWS refuses what was signed a quarter of an hour ago; long before that the times of a record mislead.
_MOST = timedelta(minutes=2)


def clock_finding(name: str, theirs: datetime | None, before: datetime, after: datetime) -> Finding:
    """Return how a server's clock goes with ours.

    :param name: whose clock it is.
    :param theirs: what it said; None: nothing.
    :param before: our clock when it was asked, and
    :param after: when it had answered.
    """
    what = f"clock of {name}"
    if theirs is None:
        return Finding(what, Status.UNKNOWN, "its answers carry no Date", remedy="chronyc tracking, there")
    apart = max(before - theirs - timedelta(seconds=1), theirs - after, timedelta())
    if apart <= _TOLERATED:
        return fine(what, f"within {_TOLERATED.seconds} s of ours")
    return Finding(
        what,
        Status.FAILED if apart > _MOST else Status.WARNING,
        f"{apart.total_seconds():.0f} s {'behind' if theirs < before else 'ahead of'} ours",
        f"within {_TOLERATED.seconds} s",
        "S3 refuses what is signed at another time, and the times in records and approvals mislead",
        "chronyc tracking, on both machines; start chronyd or systemd-timesyncd where it is off",
    )
