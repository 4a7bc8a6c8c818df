"""Whether an act makes sense now, and if not, why not and what to do instead.

It looks at the read model, which may be some seconds behind, and knows nothing of rights: Airflow does. The workflow
asks again, and what it says counts.
"""

from __future__ import annotations

from slipway_core.acts.situation import Availability, Available, Refused, Situation
from slipway_core.acts.table import ACTS


def availability(name: str, situation: Situation) -> Availability:
    """Return whether an act makes sense now.

    Old data never refuses an act that rolls back or holds something, and never offers one that raises a weight.
    """
    act = ACTS[name]
    found = act.possible(situation)
    if not situation.old:
        return found
    if not act.on_old_data:
        return Refused(
            f"The current state is unknown: {situation.old.rstrip('.')}. You can still roll back.",
            situation.look,
        )
    if isinstance(found, Refused):
        return Available("The data shown may be old. The workflow checks again.")
    return found
