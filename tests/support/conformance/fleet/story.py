"""Releases to the pods behind a Service, one of which hangs, wherever the pods run."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from slipway.fleet import FleetOutcome
from slipway.fleet.members import Member, Members
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.fleet.document import FleetDocument
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.conformance.fleet.service import FleetService, ServiceUsers
from tests.support.conformance.kubelet import is_ready
from tests.support.fleet.servers import POLICY, TritonFleet
from tests.support.serving.triton_install import triton_install
from tests.support.waiting import wait_until

FENCE = POLICY.model_copy(update={"on_unreachable": "fence"})
LIMIT_S = 90.0
# So many answers after the server goes on.
_ANSWERS = 30


class Site(Protocol):
    """Where the pods run.

    :param repository: what their servers load models from.
    """

    service: FleetService
    repository: Path

    def members(self) -> Members:
        """Return the servers behind the Service."""
        ...

    def led(self, address: str) -> str:
        """Return where it is that a pod's address and port lead."""
        ...

    def lives(self, pod: str) -> bool:
        """Return whether the pod's server answers."""
        ...

    def signal(self, pod: str, number: signal.Signals) -> None:
        """Send a signal to the pod's server."""
        ...


def bring(site: Site, store: ModelStoreHook, version: int, run_id: str, **fields: Any) -> FleetOutcome:
    """Release a version to whoever is behind the Service."""
    given = {"members": site.members(), "policy": FENCE, **fields}
    # Never started: the release takes the version's configuration from its repository.
    published = TritonServer(triton_install(), site.repository, TritonPorts.free())
    return TritonFleet({"published": published}).bring(store, version, run_id, **given)


def states(outcome: FleetOutcome) -> dict[str, tuple[str, int | None]]:
    """Return what came of it on each server."""
    return {name: (one.state, one.version) for name, one in outcome.servers.items()}


def kept(store: ModelStoreHook) -> FleetDocument:
    """Return what is kept of the fleet."""
    return FleetDocument.from_bytes(store.read("fleets/pair/fleet.json") or b"", "the document")


def wait_for_pods(site: Site, count: int) -> set[str]:
    """Wait until so many pods are behind the Service and answer; return them."""

    def all_live() -> set[str] | None:
        named = site.service.named()
        return named if len(named) == count and all(site.lives(one) for one in named) else None

    found: set[str] = wait_until(all_live, f"{count} pods are there", LIMIT_S)
    return found


class _FencedThenJoined:
    """The members of a site; whoever fences one waits until another pod has come."""

    def __init__(self, site: Site) -> None:
        members = site.members()
        self.require_fencing = members.require_fencing
        self._members, self._site = members, site
        self.fence_s = 0.0

    async def current(self) -> Sequence[Member]:
        """Return the servers."""
        return await self._members.current()

    async def fence(self, name: str, reason: str) -> None:
        """Take a server out: no slice names it when that has ended."""
        before, began_s = self._site.service.named(), time.monotonic()
        await self._members.fence(name, reason)
        self.fence_s = time.monotonic() - began_s
        assert name not in self._site.service.named()
        await asyncio.to_thread(wait_for_pods, self._site, len(before))


def hung_server_is_replaced(site: Site, store: ModelStoreHook) -> str:
    """Go through it all, and return figures for people.

    A first release makes the pods ready. In the next one a server hangs at the commit: it leaves the slices, the
    Deployment's next pod joins the release, and no user gets the version before again, also when the server goes on.
    """
    service = site.service
    before = wait_for_pods(site, 3)
    assert service.named(ready=True) == set()
    first = bring(site, store, 1, "one")
    assert (first.outcome, first.from_version, first.reasons) == ("committed", None, ())
    wait_until(lambda: service.named(ready=True) == before, "the version makes the pods ready", LIMIT_S)
    hung, members = min(before), _FencedThenJoined(site)
    try:
        with ServiceUsers(service, site.led) as users:
            second = bring(
                site,
                store,
                2,
                "two",
                members=members,
                permit=cache(lambda: site.signal(hung, signal.SIGSTOP)),
            )
            committed_s = time.monotonic()
            assert second.outcome == "committed", second.reasons
            (new,) = service.named() - before
            others = {*before, new} - {hung}
            assert states(second) == {**dict.fromkeys(others, ("committed", 2)), hung: ("fenced", None)}
            assert set(kept(store).fenced) == {hung}
            wait_until(lambda: new in service.named(ready=True), "the new pod gets requests", LIMIT_S)
            site.signal(hung, signal.SIGCONT)
            path = service.pod_path(hung)
            wait_until(lambda: is_ready(service.api.must("GET", path)), "the server goes on", LIMIT_S)
            since_s = time.monotonic()
            wait_until(lambda: users.versions_since(since_s).total() > _ANSWERS, "more answers", LIMIT_S)
    finally:
        site.signal(hung, signal.SIGCONT)
    assert hung not in service.named()
    assert users.failures(but_of=[hung]) == []
    assert set(users.versions_since(committed_s)) == {"2"}
    # Whoever has seen to it deletes the pod; it was replaced already.
    service.api.must("DELETE", service.pod_path(hung))
    again = bring(site, store, 2, "three")
    assert (again.outcome, again.reasons) == ("committed", ())
    assert set(again.servers) == others
    assert kept(store).fenced == {}
    return (
        f"{len(users.asked)} requests, {len(users.failures())} failed, all to the server that hung; it had left the "
        f"slices {members.fence_s:.2f} s after the fencing began; commit {second.commit_ms} ms"
    )
