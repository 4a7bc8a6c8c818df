"""A server that does not answer is taken out of its fleet where the policy says so, and where it can be."""

from __future__ import annotations

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import ClusterUnavailableError, UserError
from tests.support.fleet.servers import FACTORS, POLICY, TritonFleet
from tests.support.fleet.steps import document, on_all

pytestmark = pytest.mark.timeout(600)


def test_one_that_hangs_is_fenced_where_the_policy_says_so(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """The others go on without it, and it is said; at the next release it is asked again."""
    fleet.bring(store, 1, "one")
    policy = POLICY.model_copy(update={"on_unreachable": "fence"})
    with fleet.stopped("s0"):
        outcome = fleet.bring(store, 2, "two", policy=policy)
    assert outcome.outcome == "committed"
    assert outcome.servers["s0"].state == "fenced"
    assert "s0" in document(store).fenced
    assert fleet.served(["s1", "s2"]) == dict.fromkeys(("s1", "s2"), ("2", FACTORS[2]))
    whole = TritonFleet(fleet.servers)
    assert whole.bring(store, 2, "three").outcome == "committed"
    assert whole.served() == on_all(2)
    assert document(store).fenced == {}


class Unfenceable:
    """The fleet's servers, none of which can be taken out: users go on to be sent to it."""

    def __init__(self, fleet: TritonFleet) -> None:
        self.current = fleet.members.current

    async def require_fencing(self) -> None:
        """Find nothing wrong: nobody knew."""

    async def fence(self, name: str, reason: str) -> None:
        """Refuse."""
        raise ClusterUnavailableError("labelling the pod failed", found="HTTP 403")


def test_server_that_cannot_be_fenced_takes_all_back(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """It counts as one that refuses: nobody goes on without it, and nothing is kept that calls it fenced."""
    fleet.bring(store, 1, "one")
    policy = POLICY.model_copy(update={"on_unreachable": "fence"})
    with fleet.stopped("s0"):
        outcome = fleet.bring(store, 2, "two", policy=policy, members=Unfenceable(fleet))
    assert outcome.outcome == "taken_back"
    assert outcome.servers["s0"].state == "unreachable"
    assert any("could not be fenced" in one and "HTTP 403" in one for one in outcome.reasons)
    assert not any(one.startswith("fenced: ") for one in outcome.reasons)
    assert fleet.served(["s1", "s2"]) == dict.fromkeys(("s1", "s2"), ("1", FACTORS[1]))
    assert document(store).fenced == {}


def test_fleet_that_could_fence_nobody_is_not_begun(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """Where the policy says that servers are fenced, that is asked for before anything is written or loaded."""

    class Powerless(Unfenceable):
        async def require_fencing(self) -> None:
            raise UserError("no right to patch pods")

    members = Powerless(fleet)
    with pytest.raises(UserError, match="no right"):
        fleet.bring(
            store, 2, "two", policy=POLICY.model_copy(update={"on_unreachable": "fence"}), members=members
        )
    assert store.read("fleets/pair/fleet.json") is None
    assert fleet.bring(store, 2, "two", members=members).outcome == "committed"


def test_server_that_was_only_to_be_fenced_counts_when_a_release_goes_on(
    fleet: TritonFleet, store: ModelStoreHook
) -> None:
    """Killed between what is written and the fencing, the same run asks the server again: users are sent to it."""
    fleet.bring(store, 1, "one")

    class Killed(BaseException):
        pass

    class Dying(Unfenceable):
        async def fence(self, name: str, reason: str) -> None:
            raise Killed

    policy = POLICY.model_copy(update={"on_unreachable": "fence"})
    with fleet.stopped("s0"), pytest.raises(Killed):
        fleet.bring(store, 2, "two", policy=policy, members=Dying(fleet))
    assert "s0" in document(store).fenced
    assert fleet.bring(store, 2, "two", policy=policy).outcome == "committed"
    assert fleet.served() == on_all(2)
    assert document(store).fenced == {}
