"""What the judge says after a window, with everything that it takes to compute it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from slipway_core.canary.totals import Totals
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import HypothesisName

Status = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Statistics:
    """The numbers that a verdict rests on.

    :param evidence: the evidence against the candidate by hypothesis test; each begins with its share of 1.
    :param total_evidence: the sum of it, against which `threshold` stands.
    :param users_alone: what the evidence would be by users' windows alone.
    :param replays_alone: what it would be by replayed windows alone; None: there were none.
    :param streams_alone: what it would be by streamed windows alone; None: there were none.
    :param threshold: the evidence at which the candidate fails.
    :param no_worse: the evidence that the candidate is no worse beyond the margin.
    :param no_worse_threshold: where that evidence is enough to pass.
    :param correlation: the correlation of errors within a window that the evidence is counted with.
    :param minimum_requests: what each revision must have been sent before the candidate may pass.
    :param weight: of the step, in percent; None: no step was begun.
    :param bake_s: for how long the step is watched at least.
    :param step: the sums of the step.
    :param canary: the sums of the whole canary.
    :param no_data_windows: windows in a row for which the metrics source had no data, up to now.
    """

    evidence: Mapping[HypothesisName, float]
    total_evidence: float
    users_alone: float
    replays_alone: float | None
    threshold: float
    no_worse: float
    no_worse_threshold: float
    correlation: float
    minimum_requests: int
    weight: int | None
    bake_s: float
    step: Totals
    canary: Totals
    no_data_windows: int
    streams_alone: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, as it lies in the record."""
        return {
            "evidence": dict(self.evidence),
            "total_evidence": self.total_evidence,
            "users_alone": self.users_alone,
            "replays_alone": self.replays_alone,
            **({} if self.streams_alone is None else {"streams_alone": self.streams_alone}),
            "threshold": self.threshold,
            "no_worse": self.no_worse,
            "no_worse_threshold": self.no_worse_threshold,
            "correlation": self.correlation,
            "minimum_requests": self.minimum_requests,
            "weight": self.weight,
            "bake_s": self.bake_s,
            "step": self.step.to_dict(),
            "canary": self.canary.to_dict(),
            "no_data_windows": self.no_data_windows,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Statistics:
        """Rebuild them from `to_dict`'s form.

        :raises ValueError: a number is invalid.
        :raises KeyError: a number is missing.
        :raises TypeError: a part has another form.
        """
        known = get_args(HypothesisName)
        evidence: dict[HypothesisName, float] = {
            name: float(one) for name, one in value["evidence"].items() if name in known
        }
        total = float(value["total_evidence"])
        replays, streams, weight = (
            value.get("replays_alone"),
            value.get("streams_alone"),
            value["weight"],
        )
        return cls(
            evidence=evidence,
            total_evidence=total,
            users_alone=float(value["users_alone"]),
            replays_alone=None if replays is None else float(replays),
            threshold=float(value["threshold"]),
            no_worse=float(value["no_worse"]),
            no_worse_threshold=float(value["no_worse_threshold"]),
            correlation=float(value["correlation"]),
            minimum_requests=int(value["minimum_requests"]),
            weight=None if weight is None else int(weight),
            bake_s=float(value["bake_s"]),
            step=Totals.from_dict(value["step"]),
            canary=Totals.from_dict(value["canary"]),
            no_data_windows=int(value["no_data_windows"]),
            streams_alone=None if streams is None else float(streams),
        )


@dataclass(frozen=True)
class Verdict:
    """What the judge says after a window.

    :param window: what was judged; None: all that was seen so far, or a window without data.
    :param no_data: the metrics source could not be read, which is never a pass.
    :param not_seen: what the source of the windows cannot see, in words.
    """

    status: Status
    reason: str
    statistics: Statistics
    window: Window | None = None
    no_data: bool = False
    not_seen: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, as it lies in the record."""
        return {
            "status": self.status,
            "reason": self.reason,
            "statistics": self.statistics.to_dict(),
            "window": None if self.window is None else self.window.to_dict(),
            "no_data": self.no_data,
            **({"not_seen": list(self.not_seen)} if self.not_seen else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Verdict:
        """Rebuild a verdict from `to_dict`'s form.

        :raises ValueError: a verdict cannot have one of the values.
        :raises KeyError: a key is missing.
        :raises TypeError: a part has another form.
        """
        status, reason, window = value["status"], value["reason"], value["window"]
        if not isinstance(reason, str):
            raise TypeError(f"the reason is a {type(reason).__name__}, not a text")
        if status not in get_args(Status):
            raise ValueError(f"the status {status!r}: none of {', '.join(get_args(Status))}")
        return cls(
            status=status,
            reason=reason,
            statistics=Statistics.from_dict(value["statistics"]),
            window=None if window is None else Window.from_dict(window),
            no_data=bool(value["no_data"]),
            not_seen=words_of(value.get("not_seen", [])),
        )


def words_of(value: object) -> tuple[str, ...]:
    """Return what a source cannot see as it was recorded.

    :raises TypeError: it is no list of texts.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"what a source does not see is a {type(value).__name__}, not a list of texts")
    return tuple(value)
