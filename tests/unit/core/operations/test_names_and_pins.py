"""Who names a version: InferenceServices, staging, pins, and the records' own history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.operations.audit import GcApproval, require_approved
from slipway_core.operations.live_history import live_history
from slipway_core.operations.names_in_use import staged_versions, versions_named
from slipway_core.operations.pins import Pin, pin_sentence, pinned_versions
from slipway_core.record.events import Event, EventWriter
from slipway_core.record.kinds import Promoted, ReleaseStarted, RolledBack

AT = datetime(2026, 11, 22, tzinfo=UTC)
HOSTILE = [b"", b"null", b"\xff\xfe", b"[" * 100_000, b'{"by": 1}', b" " * (1 << 20)]


def uri(version: int, model: str = "digits") -> str:
    return f"s3://bucket/models/{model}/{version}/repository"


SERVICE: dict[str, Any] = {
    "metadata": {
        "name": "digits",
        "annotations": {
            "slipway.dev/stable-uri": uri(2),
            "slipway.dev/rolled-back-uri": uri(3),
            "slipway.dev/stable-version": "4",
            "kubectl.kubernetes.io/last-applied-configuration": f'{{"storageUri":"{uri(5)}"}}',
        },
    },
    "spec": {
        "predictor": {"model": {"storageUri": uri(6)}},
        "canary": [{"trafficPercent": 5, "predictor": {"model": {"storageUri": f"{uri(7)}/"}}}],
        "transformer": {"containers": [{"args": ["--model", uri(8)], "env": [{"value": uri(1, "other")}]}]},
    },
    "status": {"unknown": {uri(9): True}},
}


def test_every_place_of_a_service_counts() -> None:
    """Stable, canary, notes, what kubectl keeps, and places that nobody knows of."""
    assert sorted(versions_named("digits", SERVICE)) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert versions_named("digits", SERVICE)[7] == "spec.canary.predictor.model.storageUri"


def test_another_model_is_not_named() -> None:
    """Neither is a model whose name only begins alike."""
    assert list(versions_named("other", SERVICE)) == [1, 4]
    assert versions_named("digit", SERVICE) == {}
    assert list(versions_named("digit", SERVICE, is_own=True)) == [4]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    before=json_values,
    path=st.lists(st.text(max_size=5) | st.none(), max_size=6),
    version=st.integers(1, 10**17),
)
def test_a_name_is_found_wherever_it_lies(before: Any, path: list[str | None], version: int) -> None:
    """At any depth, in a list or under any key."""
    value: Any = uri(version)
    for key in path:
        value = [before, value] if key is None else {key: value, "x": before}
    assert version in versions_named("digits", {"spec": value})


def test_depth_does_not_matter() -> None:
    """An object that is nested deeper than Python recurses is read."""
    value: Any = uri(3)
    for _ in range(20_000):
        value = [value]
    assert list(versions_named("digits", {"spec": value})) == [3]


def test_staging_names_versions() -> None:
    """The candidate, the baseline and the members of an ensemble; no other model."""
    keys = [
        "staging/digits/3/model.onnx",
        "staging/digits_baseline/2/model.onnx",
        "staging/digits__member/4/model.onnx",
        "staging/digits-b/9/model.onnx",
        "staging/digits/config.pbtxt",
        "staging/digits/x/model.onnx",
    ]
    assert staged_versions("digits", keys) == {2, 3, 4}


def test_pins_are_objects() -> None:
    """Each object pins its version."""
    assert pinned_versions("digits", ["operations/pins/digits/", "operations/pins/digits/12.json"]) == [12]


@pytest.mark.parametrize("name", ["x.json", "0.json", "7", "7.json/x", "07.json", "9" * 30 + ".json"])
def test_a_stray_among_pins_is_an_error(name: str) -> None:
    """Nobody can tell then what was to be pinned."""
    with pytest.raises(UserError, match="it is unknown which versions of 'digits' are pinned"):
        pinned_versions("digits", [f"operations/pins/digits/{name}"])


@pytest.mark.parametrize("content", [None, *HOSTILE])
def test_a_pin_that_cannot_be_read_pins(content: bytes | None) -> None:
    """People are told so."""
    assert pin_sentence(content) == "pinned; the pin cannot be read"


def test_a_pin_says_whose_it_is() -> None:
    """And since when, and why."""
    pin = Pin(by="alice", at=AT, reason="a customer's audit")
    assert pin_sentence(pin.to_bytes()) == "pinned by alice on 2026-11-22: a customer's audit"


def approval(**changes: Any) -> GcApproval:
    fields = {"run": "gc-1", "started_by": "alice", "approved_by": "bob", "at": AT, "plan_sha256": "a" * 64}
    return GcApproval(**(fields | changes))


def test_an_agreement_holds_for_its_plan_and_for_later_runs() -> None:
    """The first run needs it for the very plan; later ones need that there was one."""
    assert require_approved(approval(), "gc-1", "a" * 64).approved_by == "bob"
    assert require_approved(approval(), "gc-2", "b" * 64).run == "gc-1"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "Found none"),
        (approval(approved_by="alice"), "who started that run"),
        (approval(plan_sha256="b" * 64), "another plan of this run"),
    ],
)
def test_nothing_is_deleted_without_an_agreement(given: GcApproval | None, found: str) -> None:
    """Nor with one's own, nor with one to something else."""
    with pytest.raises(UserError, match=found.removeprefix("Found ")):
        require_approved(given, "gc-1", "a" * 64)


@pytest.mark.parametrize("content", HOSTILE)
def test_an_agreement_that_is_none_is_refused(content: bytes) -> None:
    """It is not taken for one."""
    with pytest.raises(UserError, match="is not a valid agreement of a person"):
        GcApproval.from_bytes(content, "x")


def events(*told: tuple[int, int, Any]) -> list[Event]:
    """Events by (day, version, data)."""
    return [
        EventWriter(release_id="r", model="digits", version=version).event(1, AT.replace(day=day), data)
        for day, version, data in told
    ]


def back(version: int) -> RolledBack:
    return RolledBack(stable_storage_uri=uri(version), candidate_requests=0, candidate_errors=0)


def test_the_records_tell_who_was_live_when() -> None:
    """Promotions and rollbacks of all versions, in the order in which they happened."""
    found = live_history(
        "digits",
        events(
            (9, 3, back(2)),
            (1, 1, Promoted(storage_uri=uri(1))),
            (5, 2, Promoted(storage_uri=uri(2))),
            (7, 3, Promoted(storage_uri=uri(3))),
        ),
    )
    assert (found.live, found.before) == (2, 3)
    assert found.left_at == {1: AT.replace(day=5), 3: AT.replace(day=9)}


def test_a_release_tells_what_it_found_live() -> None:
    """Also where the record of that version is lost; what names another model tells nothing."""
    found = live_history(
        "digits",
        events(
            (1, 5, ReleaseStarted(stable_storage_uri=uri(4))),
            (2, 5, ReleaseStarted(stable_storage_uri=uri(9, "other"))),
            (3, 5, ReleaseStarted(stable_storage_uri="gs://elsewhere")),
            (4, 6, ReleaseStarted(stable_storage_uri=uri(5))),
        ),
    )
    assert (found.live, found.before, found.left_at) == (5, 4, {4: AT.replace(day=4)})
    assert live_history("digits", []).live is None
