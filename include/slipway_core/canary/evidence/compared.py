"""What a pass rests on, in words: "no evidence against it" always comes with what the candidate was compared with."""

from __future__ import annotations

from slipway_core.canary.evidence.earlier_windows import EarlierWindows
from slipway_core.canary.evidence.single_clump import SingleClump
from slipway_core.canary.totals import Totals
from slipway_core.spec.rollout.analysis import HypothesisName

EARLIER_WORDS: dict[HypothesisName, str] = {
    "errors": "it fails far more often than stable did in earlier windows, and stable is asked too little now",
    "latency": "it is far slower than stable was in earlier windows, and stable is asked too little now",
}


def compared_words(step: Totals, canary: Totals, earlier: EarlierWindows, clump: SingleClump) -> str:
    """Return what the candidate was compared with in this step, to stand behind what was found."""
    if not step.stable_requests and not earlier.step_requests:
        return f", compared with {step.stable_replayed_requests:,} replayed golden requests to stable"
    same = f"{step.stable_requests:,} stable requests of the same windows"
    before = canary.stable_requests - step.stable_requests
    if earlier.step_requests and before:
        same += f" and {before:,} of earlier windows"
    words = f", compared with {same}"
    return f"{words}; {clump.words()}" if clump.is_over else words
