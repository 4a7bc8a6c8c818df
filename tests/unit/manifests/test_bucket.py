"""include/manifests/bucket: it denies what it says, and nothing that publishing, releases or collecting need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest

from include.model_release.bucket_layout import live_key, model_view_key, repository_paths
from include.model_release.operations.freezes import freezes_prefix, lifted_key
from include.model_release.operations.layout import (
    GC_APPROVAL_KEY,
    audit_key,
    latency_reference_key,
    outbox_key,
    plan_key,
    result_key,
    revalidation_report_key,
    run_plan_key,
    undelivered_key,
)
from include.model_release.operations.pins import pin_key
from include.model_release.operations.revalidation.findings import finding_key
from include.model_release.publishing.build_fingerprint import RECIPE_FILE
from include.model_release.publishing.manifest import GOLDEN_FILE, SBOM_FILE, SIGNATURE_FILE
from include.model_release.publishing.publication import decision_key, origin_prefix
from include.model_release.publishing.tombstone import DELETED_MANIFEST_FILE, tombstone_key
from include.sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "bucket"
POLICY = json.loads((FOLDER / "policy.json").read_text())
ROLE = json.loads((FOLDER / "collector.json").read_text())
LIFECYCLE = json.loads((FOLDER / "lifecycle.json").read_text())
PUBLISHER, COLLECTOR, OTHER = "slipway-publisher", "slipway-collector", "training"
PATHS = repository_paths("digits", 3)
MODEL = f"{PATHS.repository}digits/3/model.onnx"
CONFIG = f"{PATHS.repository}digits/config.pbtxt"
BESIDE = [PATHS.root + name for name in (GOLDEN_FILE, RECIPE_FILE, SBOM_FILE, SIGNATURE_FILE)]
FREEZES = [f"{freezes_prefix(model)}20261228T080000Z-0123456789abcdef.json" for model in (None, "digits")]
ONCE = [
    PATHS.manifest,
    decision_key(PATHS),
    f"{PATHS.records}000001-admitted.json",
    *FREEZES,
    *map(lifted_key, FREEZES),
]
NOTICES = [outbox_key(datetime(2026, 11, 22, tzinfo=UTC), "0" * 32), undelivered_key("0" * 32)]
OF_REVALIDATION = [
    revalidation_report_key("run-1", "digits"),
    finding_key("digits", "3-published"),
    latency_reference_key("digits", 3),
]
FOR_PAGES = [model_view_key("digits"), live_key("digits")]
NOT_PUBLISHED = [
    f"{PATHS.incoming}model.onnx",
    f"{PATHS.work}model.onnx",
    f"{origin_prefix(PATHS)}0",
    f"{PATHS.evidence}digits-3/release.json",
    "staging/digits/3/model.onnx",
    "records/digits/active.json",
    *NOTICES,
    *OF_REVALIDATION,
    *FOR_PAGES,
]
TOMBSTONE = tombstone_key(PATHS)
AUDIT = [GC_APPROVAL_KEY, audit_key("digits", 3, "gc-1", "deletion-begun")]
OF_A_GC_RUN = [
    run_plan_key("gc-1"),
    plan_key("gc-1", "digits"),
    result_key("gc-1", "digits"),
    f"{PATHS.evidence}{DELETED_MANIFEST_FILE}",
    pin_key("digits", 3),
    "records/digits/active.json",
    model_view_key("digits"),
]
KNOWN_CONDITIONS = {"ArnNotLike", "Null"}


def values(value: Any) -> list[Any]:
    """A policy writes one value, or a list of them."""
    return value if isinstance(value, list) else [value]


def matches(patterns: Any, text: str) -> bool:
    """Whether a text is like one of the patterns; `*` stands for slashes too, as in S3."""
    return any(fnmatchcase(text, pattern) for pattern in values(patterns))


def holds(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    """Whether all conditions of a statement hold for a request."""
    assert conditions.keys() <= KNOWN_CONDITIONS
    for key, patterns in conditions.get("ArnNotLike", {}).items():
        if matches(patterns, context[key]):
            return False
    return all(
        (key not in context) == (wanted == "true") for key, wanted in conditions.get("Null", {}).items()
    )


def denied(role: str, action: str, key: str, *, if_none_match: bool = False) -> list[str]:
    """The statements that deny a request."""
    context = {"aws:PrincipalArn": f"arn:aws:iam::ACCOUNT:role/{role}"}
    if if_none_match:
        context["s3:if-none-match"] = "*"
    return [
        one["Sid"]
        for one in POLICY["Statement"]
        if matches(one["Action"], action)
        and matches(one["Resource"], f"arn:aws:s3:::BUCKET/{key}")
        and holds(one.get("Condition", {}), context)
    ]


def test_it_only_denies() -> None:
    """Every statement denies, to everyone but roles that it names; nobody gets a right from it."""
    assert {(one["Effect"], one["Principal"]) for one in POLICY["Statement"]} == {("Deny", "*")}
    assert len({one["Sid"] for one in POLICY["Statement"]}) == len(POLICY["Statement"])


@pytest.mark.parametrize("key", [MODEL, CONFIG, *BESIDE])
def test_publisher_lays_a_version_in_place(key: str) -> None:
    """Files are copied to their places without a condition: S3 refuses copies where a policy demands one."""
    assert denied(PUBLISHER, "s3:PutObject", key) == []


@pytest.mark.parametrize("key", ONCE)
def test_what_decides_is_written_once(key: str) -> None:
    """Manifest, decision and records are written with If-None-Match, by the publisher too, or not at all."""
    assert denied(PUBLISHER, "s3:PutObject", key, if_none_match=True) == []
    for role in (PUBLISHER, COLLECTOR, OTHER):
        assert "ManifestsAndRecordsAreWrittenOnce" in denied(role, "s3:PutObject", key)


@pytest.mark.parametrize("key", [MODEL, CONFIG, *BESIDE, *ONCE[:2]])
@pytest.mark.parametrize("role", [OTHER, COLLECTOR])
def test_nobody_else_writes_a_version(role: str, key: str) -> None:
    """A version's files are overwritten by no other role, with a condition or without."""
    for once in (True, False):
        assert denied(role, "s3:PutObject", key, if_none_match=once)


@pytest.mark.parametrize("key", [MODEL, *BESIDE, *ONCE])
def test_only_the_collector_deletes_a_version(key: str) -> None:
    """Deleting is the collector's; publishing removes from a repository what does not belong, keeping its history."""
    assert denied(COLLECTOR, "s3:DeleteObject", key) == []
    assert denied(COLLECTOR, "s3:DeleteObjectVersion", key) == []
    assert denied(OTHER, "s3:DeleteObject", key)
    assert bool(denied(PUBLISHER, "s3:DeleteObject", key)) == (key != MODEL)
    for role in (PUBLISHER, OTHER):
        assert denied(role, "s3:DeleteObjectVersion", key)
        assert denied(role, "s3:BypassGovernanceRetention", key)


def test_the_collector_writes_tombstones() -> None:
    """Nobody else does, for a tombstone ends a version; and each is written once."""
    assert denied(COLLECTOR, "s3:PutObject", TOMBSTONE, if_none_match=True) == []
    assert denied(COLLECTOR, "s3:PutObject", TOMBSTONE)
    for role in (PUBLISHER, OTHER):
        assert denied(role, "s3:PutObject", TOMBSTONE, if_none_match=True)


@pytest.mark.parametrize("role", [PUBLISHER, COLLECTOR, OTHER])
def test_tombstones_and_the_audit_stay(role: str) -> None:
    """Nobody removes or replaces what was done to a version; whoever does something may write it down, once."""
    for key in (TOMBSTONE, *AUDIT):
        for action in ("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"):
            assert denied(role, action, key), (action, key)
    for key in AUDIT:
        assert denied(role, "s3:PutObject", key, if_none_match=True) == []


@pytest.mark.parametrize("key", OF_A_GC_RUN)
def test_a_run_of_retention_keeps_its_pages(key: str) -> None:
    """What else the collector writes is not under the policy."""
    assert denied(COLLECTOR, "s3:PutObject", key) == []


@pytest.mark.parametrize("key", NOT_PUBLISHED)
@pytest.mark.parametrize("role", [PUBLISHER, OTHER])
def test_the_rest_of_the_bucket_is_left_alone(role: str, key: str) -> None:
    """Uploads, work, staging, evidence and the lock are written and deleted as roles' own policies say."""
    assert denied(role, "s3:PutObject", key) == []
    assert denied(role, "s3:DeleteObject", key) == []


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket"])
def test_reading_is_left_alone(action: str) -> None:
    """The policy says nothing of who may read."""
    for key in (MODEL, *ONCE):
        assert denied(OTHER, action, key) == []


def test_roles_are_named_alike() -> None:
    """No statement names a role that the others, or the README, do not know."""
    arns: Iterable[str] = (
        arn
        for one in POLICY["Statement"]
        for arn in values(one.get("Condition", {}).get("ArnNotLike", {}).get("aws:PrincipalArn", []))
    )
    assert set(arns) == {f"arn:aws:iam::ACCOUNT:role/{role}" for role in (PUBLISHER, COLLECTOR)}


def allowed(action: str, key: str) -> bool:
    """Whether the collector's own policy allows a request: a statement allows it, and none denies it."""
    effects = {
        one["Effect"]
        for one in ROLE["Statement"]
        if matches(one["Action"], action) and matches(one["Resource"], f"arn:aws:s3:::BUCKET/{key}")
    }
    return effects == {"Allow"}


def test_the_collectors_role_is_enough() -> None:
    """It may read, write and delete what a run of retention reads, writes and deletes."""
    written = [TOMBSTONE, *AUDIT, *(key for key in OF_A_GC_RUN if key != pin_key("digits", 3))]
    assert [key for key in written if not allowed("s3:PutObject", key)] == []
    read = [PATHS.manifest, TOMBSTONE, f"{PATHS.records}000001-admitted.json", *AUDIT, *OF_A_GC_RUN]
    assert [key for key in read if not allowed("s3:GetObject", key)] == []
    gone = [MODEL, CONFIG, *BESIDE, PATHS.manifest, decision_key(PATHS), "records/digits/active.json"]
    assert [key for key in gone if not allowed("s3:DeleteObject", key)] == []


def test_the_collectors_role_is_no_more_than_that() -> None:
    """It writes no version, and deletes neither records, evidence and notices nor anything beside the versions."""
    for key in (MODEL, CONFIG, *BESIDE, PATHS.manifest, decision_key(PATHS)):
        assert not allowed("s3:PutObject", key), key
    stays = [
        *NOTICES,
        f"{PATHS.records}000001-admitted.json",
        f"{PATHS.evidence}r/release.json",
        f"{PATHS.incoming}ready.json",
    ]
    for key in (
        *stays,
        *AUDIT,
        *OF_REVALIDATION,
        *FOR_PAGES,
        pin_key("digits", 3),
        "staging/digits/3/model.onnx",
    ):
        assert not allowed("s3:DeleteObject", key), key
        assert not allowed("s3:DeleteObjectVersion", key), key


def test_former_documents_for_pages_go_and_nothing_else() -> None:
    """Only what is written over again and again for pages loses its history; no object itself expires."""
    prefixes = [one["Filter"]["Prefix"] for one in LIFECYCLE["Rules"]]
    assert all(any(key.startswith(prefix) for prefix in prefixes) for key in FOR_PAGES)
    others = [key for key in (*NOT_PUBLISHED, *ONCE, *AUDIT, TOMBSTONE, MODEL) if key not in FOR_PAGES]
    assert not [key for key in others if any(key.startswith(prefix) for prefix in prefixes)]
    assert {
        key for one in LIFECYCLE["Rules"] for key in one if key.endswith(("Expiration", "Transitions"))
    } == {"NoncurrentVersionExpiration"}
