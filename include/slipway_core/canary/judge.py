"""The judge of a canary: windows in, verdicts out, nothing else.

    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(weight=5, bake_s=60)
    verdict = judge.observe(Window(seconds=10, stable=Sample(...), candidate=Sample(...)))

It tests several null hypotheses: errors are no more frequent than stable's *in the same window*, beyond the margin;
answers are no slower than stable's, beyond the margin, at some levels of the distribution; and, if the policy names
ceilings, they are not exceeded. Each test has a share of a wealth of 1 and an e-process (`e_process.py`) over the whole
canary, steps included; the sum of their wealth is the evidence. When it reaches 1/alpha the candidate fails, and a fail
is final. The chance to fail a candidate that is no worse, over the whole canary and however often it is looked at, is
at most alpha.

If stable gets few requests, as it does at 99 %, one window proves little: then the candidate is also compared with
ceilings from earlier windows (`evidence/earlier_windows.py`). While it may be cold after a raise, its latencies do not
count (`coverage/latency_grace.py`). Time without candidate requests does not count as bake time. And a single clump of
failures delays a pass until enough has followed it (`evidence/single_clump.py`).

If users send too few requests, golden requests can be replayed in addition. Their windows are a separate source
(`Window.source`), with its own wealth (`golden_replay.py`), and their counts are separate in the totals. They help
to reach the minimum of samples and make up for idle time, and a pass that rests on them says so; they never show that
the candidate is no worse, never shorten the bake, and never clear what users' windows make suspicious.

A model that is asked over streams is judged by golden requests that are streamed to both revisions as well
(`streamed.py`): a third source, without which no step of such a model passes.

Where the router leads clearly more or fewer users to the candidate than the step's weight says (`router_share.py`), it
passes nothing: the verdict is inconclusive until that has changed, and a fail stays a fail.

It goes through three lists, and what is added to it belongs in one of them: what the windows cover
(`coverage/parts.py`), what users' windows are evidence of (`evidence/users.py`), and the other sources of windows
(`other_sources.py`).

What it cannot do: a difference within the margin is never found, by design; a difference just beyond it takes
long; between two bounds of a histogram it sees no latency; and where failures come in bursts
(`burst_correlation`, `dispersion.py`) a window is worth at most 1/correlation requests. Bursts that last over
several windows and hit the candidate alone look like a fault, because for users they are one.
"""

from __future__ import annotations

import json
from dataclasses import replace

from slipway_core.canary.coverage.cold_cache import allowance_words
from slipway_core.canary.coverage.parts import Coverage
from slipway_core.canary.evidence.compared import compared_words
from slipway_core.canary.evidence.users import UsersEvidence
from slipway_core.canary.figures_words import held_words, left_words, rates, resting_words
from slipway_core.canary.other_sources import OtherSources
from slipway_core.canary.streamed import unread
from slipway_core.canary.totals import CLOCK_ERROR_S, Totals
from slipway_core.canary.verdict import Statistics, Status, Verdict
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy, HypothesisName
from slipway_core.written_numbers import number

_STATE_VERSION = 2


class CanaryJudge:
    """A fold over windows.

    `to_json` and `from_json` carry it over a restart without changing a later verdict. `unjudged` holds what users met
    while nobody watched. `not_seen` says in words what the source of the windows cannot see: the watch sets it, and
    every pass names it.
    """

    def __init__(self, policy: AnalysisPolicy) -> None:
        self.policy = policy
        self.weight: int | None = None
        self.bake_s = 0.0
        self._step = Totals()
        self._canary = Totals()
        self._failed: str | None = None
        self._no_data_windows = self._disrupted_windows = 0
        self.unjudged = Totals()
        self.not_seen: tuple[str, ...] = ()
        self._coverage = Coverage(policy)
        self._users, self._others = UsersEvidence(policy), OtherSources(policy)

    def begin_step(self, weight: int, bake_s: float) -> None:
        """Begin a step at `weight` percent that is watched for `bake_s` seconds; evidence of earlier steps is kept."""
        raised = self.weight is None or weight > self.weight
        self.weight, self.bake_s = weight, float(bake_s)
        self._users.begin_step(weight, self.bake_s, raised=raised)
        self._coverage.begin_step()
        self._step = Totals()
        self._disrupted_windows = 0

    def observe(self, window: Window) -> Verdict:
        """Take in one window and judge all that was seen so far."""
        if window.source == "users":
            self._no_data_windows = 0
        if self._is_excused(window):
            self._disrupted_windows += 1
            self.count_unjudged(window)
            if window.source == "stream":
                self._test(unread(window))
            held = held_words(window, self._disrupted_windows, self.policy.disruption_grace_windows)
            return self._verdict("inconclusive", held, window=window)
        if self._failed is None:
            self._test(window)
        self._step = self._step.plus(window)
        self._canary = self._canary.plus(window)
        self._coverage.observe(window)
        return replace(self.standing(), window=window)

    def standing(self) -> Verdict:
        """Return the verdict on all that was seen so far, without another window."""
        status, reason = self._judge()
        if status == "pass":
            reason += allowance_words(self.policy, self.weight)
            reason += (
                f" Its metrics source does not see: {', '.join(self.not_seen)}." if self.not_seen else ""
            )
        return self._verdict(status, reason)

    def observe_failure(self, reason: str) -> Verdict:
        """Take note of a window without data, and return the verdict: no evidence, no bake time, never a pass.

        :param reason: why the metrics source could not be read.
        """
        self._no_data_windows += 1
        if self._failed is not None:
            return self._verdict("fail", self._failed, no_data=True)
        reason_text = f"The metrics source could not be read ({self._no_data_windows} in a row): {reason}"
        return self._verdict("inconclusive", reason_text, no_data=True)

    def count_unjudged(self, window: Window) -> None:
        """Count what users met while nobody watched, beside all that is judged.

        It is no evidence, no bake time and no help towards the minimum of samples. What a canary may cost
        (`exposure_spent`) and the record count it.
        """
        self.unjudged = self.unjudged.plus(window)

    def _is_excused(self, window: Window) -> bool:
        """Return whether the errors of a window are the cluster's, as long as it is believed in one step."""
        is_believed = self._disrupted_windows < self.policy.disruption_grace_windows
        return bool(window.disruption) and is_believed and self._failed is None

    # --- judgement ---

    def _verdict(
        self, status: Status, reason: str, *, window: Window | None = None, no_data: bool = False
    ) -> Verdict:
        return Verdict(status, reason, self._statistics(), window, no_data, self.not_seen)

    def _test(self, window: Window) -> None:
        if window.source == "users":
            self._users.observe(window, self._canary, self._step)
        else:
            self._others.observe(window, self._users_alone())

    def _users_alone(self, *, without_clump: bool = False) -> float:
        """Return what a wealth of 1 would have become by users' windows alone."""
        return sum(self._users.evidence(without_clump=without_clump).values())

    def _evidence(self, *, without_clump: bool = False) -> dict[HypothesisName, float]:
        """Return the evidence against the candidate by test, from all sources."""
        return self._others.added_to(self._users.evidence(without_clump=without_clump))

    def _judge(self) -> tuple[Status, str]:
        evidence, threshold = self._evidence(), self.policy.fail_threshold
        total = sum(evidence.values())
        worst = max(evidence, key=lambda name: evidence[name])
        if self._failed is None and total >= threshold:
            self._failed = (
                f"The candidate fails: {self._users.worse_words(worst)} ({self._figures(worst)}; evidence "
                f"{number(total)}, threshold {number(threshold)})."
            )
        self._failed = self._failed or self._coverage.failure(self.weight)
        if self._failed is not None:
            return "fail", self._failed
        doubt = self._coverage.doubt(self.weight, first=True)
        lacking = doubt or self._lacking() or self._unfinished()
        if lacking:
            return "inconclusive", lacking
        # What one source makes suspicious the other cannot clear: replays never help a candidate.
        users = self._users_alone(without_clump=True)
        together = sum(self._evidence(without_clump=True).values())
        if (
            max(together, users, *(one.alone() for one in self._others.evidence))
            >= self.policy.suspicion_threshold
        ):
            return "inconclusive", (
                f"Suspicious, not sure: perhaps {self._users.worse_words(worst)} ({self._figures(worst)}; evidence "
                f"{number(total)} of {number(threshold)})."
            )
        left_s = self.bake_s - self._step.baked_s
        if left_s > CLOCK_ERROR_S:
            return "inconclusive", f"Nothing against the candidate so far; {left_words(left_s, self._step)}."
        compared = compared_words(self._step, self._canary, self._users.earlier, self._users.clump)
        if self._users.tests.no_worse() >= threshold and not self._rests_on_replays():
            return (
                "pass",
                f"Shown to be no worse than stable beyond the margin ({rates(self._canary)}){compared}.",
            )
        return (
            "pass",
            f"The bake is over with no evidence against the candidate ({rates(self._canary)}){compared}"
            f"{self._resting()}.",
        )

    def _lacking(self) -> str | None:
        if self._no_data_windows:
            return "The metrics source could not be read; replayed requests do not stand for users'."
        needed, step, canary = self.policy.minimum_candidate_requests, self._step, self._canary
        had, replayed = step.candidate_requests, step.replays_that_count
        if had + replayed < needed:
            more = f" and {replayed} replayed ones that stable answered" if step.replayed_windows else ""
            return f"Too little data: {had} candidate requests in this step{more}, {needed} are needed."
        had, replayed = self._compared(), canary.replays_that_count
        if had + replayed < needed:
            return (
                f"Too little to compare with: {had + replayed} stable requests in this step, {needed} are needed, and "
                f"its {canary.stable_requests} of the whole canary do not make up for them."
            )
        streamed = self._others.streamed
        return None if streamed is None else streamed.lacking(step, needed)

    def _unfinished(self) -> str | None:
        """Return what is not over yet, or not seen, and so passes nothing."""
        waits = self._coverage.doubt(self.weight, first=False)
        if waits or self._step.candidate_requests < self.policy.minimum_candidate_requests:
            return waits  # what replays make up for, they have judged by their own latencies
        return self._users.doubt(self._canary, self._step)

    def _compared(self) -> int:
        return self._users.compared(self._canary, self._step)

    def _rests_on_replays(self) -> bool:
        """Return whether users alone have sent too little to tell."""
        needed = self.policy.minimum_candidate_requests
        return self._step.candidate_requests < needed or self._compared() < needed

    def _resting(self) -> str:
        if not self._rests_on_replays():
            return ""
        return resting_words(self._step, self._canary)

    def _figures(self, name: HypothesisName) -> str:
        """Return the figures that a test's evidence is made of: latencies of what is too slow, else error counts."""
        if name not in ("latency", "latency_ceiling"):
            return rates(self._canary)
        words = self._users.tests.latency_words(name)
        if name == "latency":
            words = self._others.latency_words(words, self._users.tests.evidence()["latency"])
        return words or rates(self._canary)

    def _statistics(self) -> Statistics:
        evidence = self._evidence()
        return Statistics(
            evidence=evidence,
            total_evidence=sum(evidence.values()),
            users_alone=self._users_alone(),
            replays_alone=self._others.replays_alone,
            threshold=self.policy.fail_threshold,
            no_worse=self._users.tests.no_worse(),
            no_worse_threshold=self.policy.fail_threshold,
            correlation=self._users.tests.correlation(),
            minimum_requests=self.policy.minimum_candidate_requests,
            weight=self.weight,
            bake_s=self.bake_s,
            step=self._step,
            canary=self._canary,
            no_data_windows=self._no_data_windows,
            streams_alone=self._others.streams_alone,
        )

    # --- state ---

    def to_json(self) -> str:
        """Return policy and state as JSON text."""
        return json.dumps(
            {
                "state_version": _STATE_VERSION,
                "policy": self.policy.to_dict(),
                "weight": self.weight,
                "bake_s": self.bake_s,
                "step": self._step.to_dict(),
                "canary": self._canary.to_dict(),
                **self._coverage.to_dict(),
                "failed": self._failed,
                "no_data_windows": self._no_data_windows,
                "disrupted_windows": self._disrupted_windows,
                **self._users.to_dict(),
                "unjudged": self.unjudged.to_dict(),
                **self._others.to_dict(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> CanaryJudge:
        """Rebuild a judge from `to_json`'s text.

        :raises SlipwayError: it is not such a text.
        """
        try:
            state = json.loads(text)
            if state["state_version"] != _STATE_VERSION:
                raise ValueError(f"state version {state['state_version']}")
            judge = cls(AnalysisPolicy.from_mapping(state["policy"]))
            judge.weight, judge.bake_s = state["weight"], float(state["bake_s"])
            judge._step, judge._canary = Totals.from_dict(state["step"]), Totals.from_dict(state["canary"])
            judge._failed, judge._no_data_windows = state["failed"], int(state["no_data_windows"])
            judge._disrupted_windows = int(state["disrupted_windows"])
            judge.unjudged = Totals.from_dict(state["unjudged"])
            for part in (judge._users, judge._coverage, judge._others):
                part.restore(state)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise SlipwayError(
                "the saved state of the canary's judge cannot be read",
                expected=f"JSON as CanaryJudge.to_json writes it, state version {_STATE_VERSION}",
                found=f"{type(error).__name__}: {error}",
                remedy="roll the canary back; it cannot continue without its judge",
            ) from error
        return judge
