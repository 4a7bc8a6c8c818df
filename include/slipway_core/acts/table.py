"""The one table of what a person may do, in the order in which pages and the command list it."""

from __future__ import annotations

from slipway_core.acts import answering, freezing, measuring, releasing, taking_back, versions
from slipway_core.acts.act import Act

ACTS: dict[str, Act] = {
    act.name: act
    for act in (
        releasing.RELEASE,
        releasing.PAUSE,
        releasing.RESUME,
        taking_back.ROLLBACK,
        taking_back.ABORT,
        answering.APPROVE,
        answering.DECLINE,
        versions.REJECT,
        versions.UNREJECT,
        versions.PIN,
        versions.UNPIN,
        freezing.FREEZE,
        freezing.THAW,
        freezing.OVERRIDE,
        measuring.CLOSE_FINDING,
        measuring.TUNE,
        measuring.BENCHMARK,
    )
}
