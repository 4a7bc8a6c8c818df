"""What a release must have proved before its weight is raised; pinned in its record when it begins.

It lies in the record, and not only in the release run: whoever decides about a raise reads in one place what was asked
for and what was proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slipway_core.spec.release_file import ReleaseSpec

Before = Literal["canary", "promotion"]
# The stages that prove a version before any user meets it, in their order.
GATES = ("validate", "benchmark")
# The version on its own server, where the release file does not leave it out.
SMOKE_TEST_GATE = "smoke_test"
# The comparison of mirrored requests, where the release file makes it a gate.
MIRROR_GATE = "mirror"


@dataclass(frozen=True)
class Requirements:
    """What must be in the record before a raise.

    :param gates: the stages that must have passed for the version's manifest.
    :param weights: the weights of the canary's steps in percent, rising; empty if nothing is live yet.
    :param approvals: before what a person must have agreed.
    :param by_other: whether that person must be another one than who started the run.
    """

    gates: tuple[str, ...] = GATES
    weights: tuple[int, ...] = ()
    approvals: tuple[Before, ...] = ()
    by_other: bool = False

    def gates_for(self, weight: int) -> tuple[str, ...]:
        """Return the stages that must have passed before a raise to `weight` percent.

        Mirrored requests are compared while the candidate is shown at 0 %, so a preview comes before that gate.
        """
        return self.gates if weight else tuple(gate for gate in self.gates if gate != MIRROR_GATE)

    def approvals_for(self, weight: int) -> tuple[Before, ...]:
        """Return before what a person must have agreed, for a raise to `weight` percent."""
        if weight == 100:
            return self.approvals
        return ("canary",) if weight and "canary" in self.approvals else ()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Requirements:
        """Rebuild from `to_dict`'s form.

        :raises ValueError: it is of another form.
        """
        names = {"gates", "weights", "approvals", "by_other"}
        if set(value) != names or not isinstance(value["by_other"], bool):
            raise ValueError(f"it must have {', '.join(sorted(names))}")
        lists = {name: value[name] for name in ("gates", "weights", "approvals")}
        if not all(isinstance(one, list) and len(one) <= 100 for one in lists.values()):
            raise ValueError("gates, weights and approvals are lists")
        gates, weights, approvals = (tuple(one) for one in lists.values())
        whole = all(isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= 99 for one in weights)
        rising = list(weights) == sorted(set(weights)) if whole else False
        if not rising or not all(isinstance(one, str) for one in gates):
            raise ValueError("weights rise from 1 to 99, and gates are texts")
        if not all(one in ("canary", "promotion") for one in approvals):
            raise ValueError("approvals can be required before the canary or the promotion")
        return cls(gates, weights, approvals, value["by_other"])


def requirements_of(spec: ReleaseSpec, *, first: bool) -> Requirements:
    """Return what a release under this release file must prove.

    :param first: nothing of the model is live yet.
    """
    rollout = spec.rollout
    compared = not first and rollout.mirror_comparison is not None and rollout.mirror_comparison.required
    asked: dict[Before, bool] = {
        "canary": rollout.approval.before_canary,
        "promotion": rollout.approval.before_promotion,
    }
    if first and any(asked.values()):
        # The first version gets all users at once: whoever is to be asked before that is asked before.
        asked = {"canary": True, "promotion": False}
    gates = GATES if spec.smoke_test is None else (SMOKE_TEST_GATE, *GATES)
    return Requirements(
        gates=(*gates, MIRROR_GATE) if compared else gates,
        weights=() if first else tuple(step.weight for step in rollout.steps),
        approvals=tuple(before for before, wanted in asked.items() if wanted),
        by_other=rollout.approval.by_other,
    )
