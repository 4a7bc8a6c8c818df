"""slipway_core.rollout.lease: the canary's lease, and when it has run out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.lease_limits import DEFAULT_LEASE_S
from slipway_core.rollout.lease import (
    SERVER_SKEW_S,
    Lease,
    LeaseWatch,
    ending,
    lease_manifest,
    lease_name,
    micro_time,
    parse_lease,
    pausing,
    renew_interval_s,
    renewal,
)

NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def stored(**changes: Any) -> dict[str, Any]:
    """A lease as the API returns it; `changes` go into its spec."""
    obj = lease_manifest(
        "digits",
        "models",
        holder="digits-2",
        now=NOW,
        candidate_uri="s3://models/2",
        stable_uri="s3://models/1",
    )
    obj["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    obj["spec"] |= changes
    return obj


def lease(**changes: Any) -> Lease:
    """The same, read."""
    return replace(parse_lease(stored()), **changes)


def watched(lease_seen: Lease | None, looks: int, every_s: float, **settings: float) -> LeaseWatch:
    """A watch that saw the same lease at every look."""
    missing = {key: value for key, value in settings.items() if key == "missing_lease_s"}
    watch = LeaseWatch.begin(lease_seen, 0.0, **missing)
    for number in range(1, looks):
        watch = watch.look(lease_seen, number * every_s, **settings)
    return watch


# --- the object ---


def test_a_lease_reads_back_as_it_was_written() -> None:
    """Holder, duration, times and both storageUris survive the way through the API."""
    read = parse_lease(stored())
    assert read == Lease(
        name="slipway-digits",
        namespace="models",
        inference_service="digits",
        holder="digits-2",
        lease_s=60,
        uid="u-1",
        resource_version="7",
        acquired_at=NOW,
        renewed_at=NOW,
        candidate_uri="s3://models/2",
        stable_uri="s3://models/1",
    )
    assert read.is_held_by("digits-2")
    assert not read.is_held_by("digits-3")


def test_a_lease_is_found_by_its_labels() -> None:
    """The manifest carries the labels by which a guard picks our leases among those of nodes."""
    assert stored()["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "slipway",
        "slipway.dev/inference-service": "digits",
    }
    assert stored()["metadata"]["name"] == lease_name("digits")


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (NOW, "2026-11-20T10:00:00.000000Z"),
        (NOW.replace(microsecond=1), "2026-11-20T10:00:00.000001Z"),
        (NOW.astimezone(timezone(timedelta(hours=9))), "2026-11-20T10:00:00.000000Z"),
    ],
)
def test_times_have_six_digits_and_are_utc(when: datetime, text: str) -> None:
    """A whole second is written with its digits too: the API refuses a MicroTime without them."""
    assert micro_time(when) == text


@pytest.mark.parametrize("seconds", [None, 0, -5, "60", 1.5])
def test_a_duration_that_makes_no_sense_is_the_default(seconds: Any) -> None:
    """A lease that someone else wrote without a usable duration lasts as long as ours usually do."""
    assert parse_lease(stored(leaseDurationSeconds=seconds)).lease_s == DEFAULT_LEASE_S


@pytest.mark.parametrize("obj", [{}, {"metadata": None, "spec": None}, {"spec": {"renewTime": "soon"}}])
def test_a_lease_without_content_reads_as_one_that_nobody_holds(obj: dict[str, Any]) -> None:
    """What is missing, or no time at all, reads as empty."""
    read = parse_lease(obj)
    assert (read.holder, read.renewed_at, read.is_ended) == ("", None, False)


def test_a_lease_below_one_second_is_not_made() -> None:
    """The API takes whole seconds above zero only, and so does the manifest."""
    with pytest.raises(ValueError, match="lasts 1 to 3600 seconds"):
        lease_manifest("digits", "models", holder="digits-2", now=NOW, lease_s=0)


def test_the_last_write_is_the_latest_of_all_managers() -> None:
    """Whoever wrote last counts; entries without a time are passed over."""
    obj = stored()
    times = ["2026-11-20T09:00:00Z", "2026-11-20T09:59:30Z", None, "2026-11-20T09:30:00Z"]
    obj["metadata"]["managedFields"] = [{"manager": "a", "time": time} for time in times]
    assert parse_lease(obj).written_at == NOW - timedelta(seconds=30)


# --- what is sent ---


def test_a_renewal_may_change_how_long_the_lease_lasts() -> None:
    """A holder that hands over gives the next one longer; who renews for as long as before says nothing of it."""
    assert renewal(lease(), NOW, lease_s=300)["spec"]["leaseDurationSeconds"] == 300
    for same_s in (0, lease().lease_s):
        assert "leaseDurationSeconds" not in renewal(lease(), NOW, lease_s=same_s)["spec"]


def test_a_renewal_carries_the_version_that_was_seen_and_changes_the_time_only() -> None:
    """A renewal is refused by the API when somebody wrote in between, and says the label anew."""
    body = renewal(lease(), NOW + HOUR)
    assert body == {
        "metadata": {"resourceVersion": "7", "labels": {"app.kubernetes.io/managed-by": "slipway"}},
        "spec": {"renewTime": "2026-11-20T11:00:00.000000Z"},
    }


def test_an_end_carries_the_version_that_was_seen_and_says_who_when_and_why() -> None:
    """An end is refused by the API when the lease was renewed in between; it leaves holder and times alone."""
    body = ending(lease(), by="guard", reason="nobody renewed it", now=NOW)
    assert body["metadata"]["resourceVersion"] == "7"
    assert set(body) == {"metadata"}
    obj = stored()
    obj["metadata"]["annotations"] |= body["metadata"]["annotations"]
    read = parse_lease(obj)
    assert (read.ended_by, read.ended_at, read.ended_reason) == ("guard", NOW, "nobody renewed it")
    assert read.is_ended
    assert not read.is_held_by("digits-2")


def test_an_ended_lease_cannot_be_renewed() -> None:
    """Whoever still tries has not looked: that is an error of the program, not of the cluster."""
    with pytest.raises(ValueError, match="ended by guard"):
        renewal(lease(ended_by="guard"), NOW)


# --- whether it has run out ---


def test_a_lease_unchanged_for_as_long_as_it_lasts_has_run_out() -> None:
    """At 59 of 60 seconds somebody may still be there; at 60 nobody is, unless grace is given."""
    assert watched(lease(), 60, 1.0).why_expired(lease()) == ""
    watch = watched(lease(), 61, 1.0)
    assert watch.why_expired(lease()) == "its lease of 60 s was not renewed for 60 s"
    assert watch.why_expired(lease(), grace_s=5) == ""
    assert watched(lease(), 66, 1.0).why_expired(lease(), grace_s=5)


def test_a_renewal_starts_the_time_anew() -> None:
    """What counts is that renewTime changes; a renewal at the last moment is one in time."""
    watch = watched(lease(), 60, 1.0)
    renewed = lease(renewed_at=NOW + HOUR, resource_version="8")
    watch = watch.look(renewed, 60.0)
    assert watch.unchanged_s == 0
    assert watch.look(renewed, 61.0).why_expired(renewed) == ""


@pytest.mark.parametrize("skew", [-HOUR * 5, HOUR * 5])
def test_clocks_may_differ_by_hours(skew: timedelta) -> None:
    """What time a holder writes does not matter: neither an old one ends a canary nor a coming one keeps it."""
    skewed = lease(renewed_at=NOW + skew, acquired_at=NOW + skew)
    assert watched(skewed, 30, 1.0).why_expired(skewed, server_time=NOW) == ""
    assert watched(skewed, 61, 1.0).why_expired(skewed, server_time=NOW)


def test_what_others_write_on_a_lease_does_not_renew_it() -> None:
    """A label or an annotation makes a new version of the object, and no renewal."""
    watch = watched(lease(), 60, 1.0)
    touched = lease(resource_version="99", candidate_uri="s3://else")
    assert watch.look(touched, 60.0).why_expired(touched)


def test_another_holder_has_the_whole_time() -> None:
    """A lease that was made anew, or changed hands, counts from when that was seen."""
    for new in (lease(holder="digits-3"), lease(uid="u-2")):
        assert watched(lease(), 60, 1.0).look(new, 60.0).why_expired(new) == ""


def test_a_canary_without_a_lease_has_run_out_after_one_period() -> None:
    """A lease that is missing, or was deleted, is like one that nobody renews."""
    assert watched(None, 10, 1.0, missing_lease_s=10.0).why_expired(None) == ""
    watch = watched(None, 11, 1.0, missing_lease_s=10.0)
    assert watch.why_expired(None) == "it had no lease for 10 s"
    deleted = watched(lease(), 50, 1.0).look(None, 50.0, missing_lease_s=10.0)
    assert deleted.why_expired(None) == ""
    for second in range(51, 61):
        deleted = deleted.look(None, float(second), missing_lease_s=10.0)
    assert deleted.why_expired(None)


def test_an_ended_lease_has_run_out_at_once() -> None:
    """A guard that was restarted after it had ended a lease goes on where it was."""
    ended = lease(ended_by="guard", ended_reason="nobody was there")
    assert LeaseWatch.begin(ended, 0.0).why_expired(ended) == "it was ended by guard: nobody was there"


def test_time_in_which_nothing_could_be_seen_leaves_the_holder_one_renewal() -> None:
    """While the API is away no holder can renew: a gap counts as one interval of renewal, however long it was."""
    watch = watched(lease(), 31, 1.0)
    after = watch.look(lease(), 30.0 + 600.0)
    assert after.unchanged_s == 30 + renew_interval_s(60)
    assert after.why_expired(lease()) == ""


def test_gaps_do_not_keep_a_dead_canary_for_ever() -> None:
    """An API that answers only now and then cannot put off the end beyond some looks."""
    watch = LeaseWatch.begin(lease(), 0.0)
    for number in range(1, 4):
        assert watch.why_expired(lease()) == ""
        watch = watch.look(lease(), number * 500.0)
    assert watch.why_expired(lease())


def test_a_watcher_that_looks_seldom_counts_the_time_between_its_looks() -> None:
    """Looks as far apart as the watcher means to look are no gap, even for a short lease."""
    short = lease(lease_s=3)
    assert watched(short, 3, 2.0, poll_s=2.0).why_expired(short)


def test_a_first_look_ends_what_the_server_knows_to_be_old() -> None:
    """A guard without memory goes by the API server's own clock, with more allowance than clocks can differ."""
    old = lease(written_at=NOW)
    soon, late = (NOW + timedelta(seconds=60 + SERVER_SKEW_S + more) for more in (0, 1))
    first = LeaseWatch.begin(old, 0.0)
    assert first.why_expired(old, server_time=soon) == ""
    assert first.why_expired(old, server_time=late) == "its lease of 60 s was last renewed 361 s ago"
    assert first.look(old, 1.0).why_expired(old, server_time=late) == ""
    assert first.why_expired(replace(old, written_at=None), server_time=late) == ""


@given(
    lease_s=st.integers(3, 600),
    gaps=st.lists(st.floats(0.01, 5.0), min_size=1, max_size=200),
    poll_s=st.floats(0.1, 2.0),
)
def test_a_lease_that_is_renewed_in_time_never_runs_out(
    lease_s: int, gaps: list[float], poll_s: float
) -> None:
    """Whenever the watcher looks, it finds no canary expired whose lease was renewed within its duration."""
    now_s, renewed_s, serial = 0.0, 0.0, 0
    seen = lease(lease_s=lease_s)
    watch = LeaseWatch.begin(seen, now_s)
    for gap in gaps:
        now_s += gap
        if now_s - renewed_s >= renew_interval_s(lease_s):
            serial, renewed_s = serial + 1, now_s
        seen = lease(lease_s=lease_s, renewed_at=NOW + timedelta(seconds=serial))
        watch = watch.look(seen, now_s, poll_s=poll_s)
        if gap < lease_s - renew_interval_s(lease_s):
            assert watch.why_expired(seen) == ""


@given(lease_s=st.integers(1, 600), poll_s=st.floats(0.05, 2.0))
def test_a_lease_that_nobody_renews_runs_out_within_one_look(lease_s: int, poll_s: float) -> None:
    """A watcher that looks on without gaps ends a dead canary at the first look after the lease's duration."""
    seen, now_s = lease(lease_s=lease_s), 0.0
    watch = LeaseWatch.begin(seen, now_s)
    while not watch.why_expired(seen):
        now_s += poll_s
        watch = watch.look(seen, now_s, poll_s=poll_s)
        assert now_s <= lease_s + poll_s * 1.001
    assert now_s >= lease_s * 0.999


def test_a_pause_is_a_note_that_a_holder_reads() -> None:
    """It changes nothing about who holds the lease, and is taken off by a null."""
    paused = stored()
    paused["metadata"]["annotations"] |= pausing(parse_lease(stored()), "a person looks")["metadata"][
        "annotations"
    ]
    seen = parse_lease(paused)
    assert seen.paused == "a person looks"
    assert seen.is_held_by("digits-2")
    assert pausing(seen, None)["metadata"] == {
        "resourceVersion": "7",
        "annotations": {"slipway.dev/paused": None},
    }
