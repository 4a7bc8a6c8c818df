"""What a single run may ask for: more care than the release file, and no less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from slipway_core.errors import UserError
from slipway_core.identifiers import nearest

if TYPE_CHECKING:
    from slipway_core.spec.rollout.plan import RolloutStep
    from slipway_core.spec.rollout.rollout import Rollout

# What the forms of the workflows take.
RELEASE_PARAMETERS = ("model", "version", "steps", "window_s", "wait_for_approval", "force", "reason")
ROLLBACK_PARAMETERS = (
    "model",
    "version",
    "leave",
    "reason",
    "newer",
    "emergency",
    "namespace",
    "inference_service",
)
PAUSE_PARAMETERS = ("model", "action", "reason")
FREEZE_PARAMETERS = ("action", "model", "until", "version", "reason", "evidence")
REJECTION_PARAMETERS = ("model", "version", "action", "reason", "evidence")
GC_PARAMETERS = ("models", "dry_run")
REVALIDATION_PARAMETERS = ("model",)
FINDING_PARAMETERS = ("model", "finding", "reason")
PIN_PARAMETERS = ("model", "version", "action", "reason")
SYNC_PARAMETERS = ("model",)
BENCHMARK_PARAMETERS = ("model", "version")
TUNING_PARAMETERS = (
    "model",
    "version",
    "objective",
    "quantile",
    "request_rate_rps",
    "latency_max_ms",
    "trials",
    "budget_s",
    "seed",
)


def require_known(given: Iterable[str], known: Sequence[str]) -> None:
    """Raise UserError, with the nearest name, where a run was given a parameter that there is not."""
    unknown = sorted({str(name) for name in given} - set(known))
    if not unknown:
        return
    near = nearest(unknown[0], known)
    raise UserError(
        f"the run has no parameter `{unknown[0][:60]}`",
        expected=f"one of {', '.join(known)}",
        found=", ".join(name[:60] for name in unknown[:5]),
        remedy=f"did you mean `{near}`?" if near else "leave it out of the run's conf",
    )


def looser_than_file(file: Rollout, asked: Rollout) -> list[str]:
    """Return in what a run asks for less care than its release file; nothing if it is at least as careful.

    The weight must never be ahead of the file's: at each moment of the bake the weight that is asked for is at most
    the file's, and the promotion comes no sooner. So users meet the candidate no earlier than the file says. And the
    judge must see no less: the sum of weight times bake, which the candidate's requests are in proportion to, and the
    highest weight are at least the file's. A window is neither safer longer (a bad version is found later) nor
    shorter (failures that come in bursts look like many): it stays as it is.
    """
    reasons = []
    if asked.window_s != file.window_s:
        reasons.append(f"`window_s` is {asked.window_s}, the file's is {file.window_s}")
    ahead = _ahead_at_s(file.steps, asked.steps)
    if ahead is not None:
        reasons.append(f"`steps` are ahead of the file's {ahead} s after the canary began")
    if _weight_seconds(asked.steps) < _weight_seconds(file.steps):
        reasons.append(
            f"`steps` show the judge {_weight_seconds(asked.steps)} percent-seconds of traffic, "
            f"the file's {_weight_seconds(file.steps)}"
        )
    highest, wanted = asked.steps[-1].weight, file.steps[-1].weight
    if highest < wanted:
        reasons.append(f"the last of `steps` is {highest} %, the file's is {wanted} %")
    return reasons


def _ahead_at_s(file: Sequence[RolloutStep], asked: Sequence[RolloutStep]) -> int | None:
    """Return after how many seconds the weight that is asked for is first above the file's; None: never."""
    moments = sorted(
        {0, *accumulate(step.bake_s for step in file), *accumulate(step.bake_s for step in asked)}
    )
    return next((at for at in moments if _weight_at(asked, at) > _weight_at(file, at)), None)


def _weight_at(steps: Sequence[RolloutStep], at_s: int) -> int:
    """Return the weight at a moment of the bake; 100 once it is over."""
    for step, ends in zip(steps, accumulate(step.bake_s for step in steps), strict=True):
        if at_s < ends:
            return step.weight
    return 100


def _weight_seconds(steps: Sequence[RolloutStep]) -> int:
    return sum(step.weight * step.bake_s for step in steps)
