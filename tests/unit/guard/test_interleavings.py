"""A release, two guards, KServe and a flaky API, in any order."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.lease import renew_interval_s
from slipway_core.rollout.next_action import Patch, ShiftWeight, next_action
from tests.support.examples import examples
from tests.support.guard.guarded_canary import CANDIDATE_URI, LEASE_S, SERVICES, GuardedCanary, StoreCluster

REQUESTS = ("snapshot", "patch_lease", "patch_service", "create_event")


class Interleavings(RuleBasedStateMachine):
    """Every rule is one thing that somebody does; the release follows its order: look, renew, patch."""

    def __init__(self) -> None:
        super().__init__()
        self.canary = GuardedCanary(weight=5)
        self.clusters = [StoreCluster(self.canary), StoreCluster(self.canary)]
        self.guards = [self.canary.guard(cluster) for cluster in self.clusters]
        self.renewed_at_s = 0.0
        self.longest_gap_s = 0.0
        self.decided: Patch | None = None
        self.shielded = False

    # --- the release ---

    @rule()
    def renew(self) -> None:
        """It renews its lease, unless that was ended."""
        lease = self.canary.lease()
        assert lease is not None
        if not lease.is_ended and self.canary.renew(lease):
            self._note_gap()
            self.renewed_at_s = self.canary.now_s

    @precondition(lambda self: self.decided is None)
    @rule(weight=st.sampled_from([10, 25, 50, 99]))
    def decide(self, weight: int) -> None:
        """It looks, decides on a patch, and renews its lease: without that, no patch."""
        action = next_action(ShiftWeight(weight, CANDIDATE_URI), self.canary.observed())
        lease = self.canary.lease()
        assert lease is not None
        if isinstance(action, Patch) and not lease.is_ended and self.canary.renew(lease):
            self._note_gap()
            self.renewed_at_s = self.canary.now_s
            self.decided = action

    @precondition(lambda self: self.decided is not None)
    @rule()
    def raise_weight(self) -> None:
        """It sends the patch, perhaps long after it was decided on."""
        assert self.decided is not None
        self.canary._patch(SERVICES, "digits", self.decided.body)
        self.decided = None

    # --- the others ---

    @rule(seconds=st.integers(1, 30), which=st.integers(0, 1))
    def guard_looks_on(self, seconds: int, which: int) -> None:
        """One guard looks every second, while time passes."""
        for _ in range(seconds):
            self.canary.now_s += 1
            with suppress(ClusterUnavailableError):
                self.guards[which].look()

    @rule(which=st.integers(0, 1))
    def guard_looks(self, which: int) -> None:
        """One guard looks once."""
        with suppress(ClusterUnavailableError):
            self.guards[which].look()

    @rule(which=st.integers(0, 1))
    def guard_restarts(self, which: int) -> None:
        """One guard forgets everything."""
        self.guards[which] = self.canary.guard(self.clusters[which])

    @rule(
        which=st.integers(0, 1),
        request=st.sampled_from(REQUESTS),
        when=st.sampled_from(["", "before", "after"]),
    )
    def api_changes(self, which: int, request: str, when: str) -> None:
        """One kind of request of one guard begins or ceases to fail."""
        self.clusters[which].trouble[request] = when

    @rule()
    def controller_acts(self) -> None:
        """KServe catches up."""
        self.canary.reconcile()

    @rule(seconds=st.floats(0.1, 100))
    def time_passes(self, seconds: float) -> None:
        """Nobody does anything."""
        self.canary.now_s += seconds

    # --- what always holds ---

    @invariant()
    def once_off_the_candidate_users_stay_off(self) -> None:
        """After a guard has set the weight to 0, nobody raises it again."""
        percent = self.canary.observed().canary_percent
        self.shielded = self.shielded or percent == 0
        assert not self.shielded or percent == 0

    @invariant()
    def a_release_that_renews_in_time_keeps_its_canary(self) -> None:
        """No lease is ended whose renewals were never as far apart as it lasts."""
        self._note_gap()
        lease = self.canary.lease()
        assert lease is not None
        assert not lease.is_ended or self.longest_gap_s >= LEASE_S
        assert lease.is_ended or not self.shielded

    def _note_gap(self) -> None:
        self.longest_gap_s = max(self.longest_gap_s, self.canary.now_s - self.renewed_at_s)

    def teardown(self) -> None:
        """Left alone by its release, with one guard and an API, every canary comes to weight 0."""
        self.clusters[0].trouble.clear()
        self.canary.pass_time(LEASE_S + renew_interval_s(LEASE_S), self.guards[0])
        assert (self.canary.observed().canary_percent, self.canary.candidate_share()) == (0, 0)
        assert len(self.canary.events()) <= 1


Interleavings.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestInterleavings = Interleavings.TestCase
