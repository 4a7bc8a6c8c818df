"""include/manifests/bucket: what holds of the policy as a whole, and the policies of Slipway's own roles."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from slipway_core.bucket_layout import live_key, model_view_key, repository_paths
from slipway_core.operations.layout import (
    GC_APPROVAL_KEY,
    PROBE_PREFIX,
    audit_key,
    latency_reference_key,
    outbox_key,
    plan_key,
    result_key,
    revalidation_report_key,
    run_plan_key,
    undelivered_key,
)
from slipway_core.operations.pins import pin_key
from slipway_core.operations.revalidation.findings import finding_key
from slipway_core.publishing.build_fingerprint import RECIPE_FILE
from slipway_core.publishing.manifest import GOLDEN_FILE
from slipway_core.publishing.publication import decision_key
from slipway_core.publishing.tombstone import DELETED_MANIFEST_FILE, tombstone_key
from slipway_rules.pod_files import SBOM_FILE
from slipway_rules.version_manifest import SIGNATURE_FILE
from tests.support.store.bucket_policy import (
    COLLECTOR,
    FOLDER,
    OTHER,
    POLICY,
    SLIPWAYS,
    denied,
    matches,
    values,
)

ROLE = json.loads((FOLDER / "collector.json").read_text())
LIFECYCLE = json.loads((FOLDER / "lifecycle.json").read_text())
PATHS = repository_paths("digits", 3)
MODEL = f"{PATHS.repository}digits/3/model.onnx"
CONFIG = f"{PATHS.repository}digits/config.pbtxt"
BESIDE = [PATHS.root + name for name in (GOLDEN_FILE, RECIPE_FILE, SBOM_FILE, SIGNATURE_FILE)]
EVENT = f"{PATHS.records}000001-release_started.json"
NOTICES = [outbox_key(datetime(2026, 11, 22, tzinfo=UTC), "0" * 32), undelivered_key("0" * 32)]
OF_REVALIDATION = [
    revalidation_report_key("run-1", "digits"),
    finding_key("digits", "3-published"),
    latency_reference_key("digits", 3),
]
FOR_PAGES = [model_view_key("digits"), live_key("digits")]
NOT_FOR_PAGES = [
    f"{PATHS.incoming}model.onnx",
    f"{PATHS.evidence}digits-3/release.json",
    "staging/digits/3/model.onnx",
    "records/digits/active.json",
    EVENT,
    MODEL,
    *NOTICES,
    *OF_REVALIDATION,
]
TOMBSTONE = tombstone_key(PATHS)
AUDIT = [GC_APPROVAL_KEY, audit_key("digits", 3, "gc-1", "deletion-begun")]
OF_A_GC_RUN = [
    run_plan_key("gc-1"),
    plan_key("gc-1", "digits"),
    result_key("gc-1", "digits"),
    f"{PATHS.evidence}{DELETED_MANIFEST_FILE}",
    f"{PROBE_PREFIX}0123",
    "records/digits/active.json",
    model_view_key("digits"),
]


def test_it_only_denies() -> None:
    """Every statement denies, to everyone but roles that it names; nobody gets a right from it."""
    assert {(one["Effect"], one["Principal"]) for one in POLICY["Statement"]} == {("Deny", "*")}
    assert len({one["Sid"] for one in POLICY["Statement"]}) == len(POLICY["Statement"])
    assert len(json.dumps(POLICY)) < 20 * 1024  # S3's limit


DECISIVE = [
    "records/digits/3/000201-approved.json",
    "records/digits/3/000202-promoted.json",
    "records/digits/3/segments/000001-000500.jsonl.gz",
    "records/digits/freezes/20261228T080000Z-0123456789abcdef.json",
    "records/digits/freezes/20261228T080000Z-0123456789abcdef.lifted.json",
    "records/_all/freezes/20261228T080000Z-0123456789abcdef.lifted.json",
    "records/digits/active.json",
    "records/digits/anything/new.json",
    "operations/audit/repository_gc-approved.json",
    "operations/pins/digits/3.json",
    "operations/notices/outbox/20261122T000000Z-00000000000000000000000000000000.json",
    "live/digits.json",
    "views/models/digits.json",
    "staging/digits/3/model.onnx",
    "fleets/edge/fleet.json",
    "work/digits/3/publish/0",
    "models/digits/3/evidence/digits-3/canary-watch.json",
]


@pytest.mark.parametrize("key", DECISIVE)
def test_whoever_may_write_the_bucket_by_his_own_policy_decides_nothing(key: str) -> None:
    """`training` may have s3:PutObject on the whole bucket: with no condition is anything written or deleted."""
    for role in (OTHER, None):
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectTagging"):
            assert denied(role, action, key), (role, action)
            assert denied(role, action, key, if_none_match=True), (role, action)


def test_roles_are_named_alike() -> None:
    """No statement names a role that the others, or the README, do not know."""
    arns: Iterable[str] = (
        arn
        for one in POLICY["Statement"]
        for likeness in ("ArnLike", "ArnNotLike")
        for arn in values(one.get("Condition", {}).get(likeness, {}).get("aws:PrincipalArn", []))
    )
    assert set(arns) == {f"arn:aws:iam::ACCOUNT:role/{role}" for role in SLIPWAYS}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [role for role in SLIPWAYS if f"`{role}`" not in readme] == []


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
    written = [TOMBSTONE, *AUDIT, *OF_A_GC_RUN]
    assert [key for key in written if not allowed("s3:PutObject", key)] == []
    read = [PATHS.manifest, TOMBSTONE, EVENT, *AUDIT, *OF_A_GC_RUN]
    assert [key for key in read if not allowed("s3:GetObject", key)] == []
    gone = [MODEL, CONFIG, *BESIDE, PATHS.manifest, decision_key(PATHS), "records/digits/active.json"]
    gone += [f"{PROBE_PREFIX}0123"]
    assert [key for key in written if denied(COLLECTOR, "s3:PutObject", key, if_none_match=True)] == []
    assert [key for key in gone if denied(COLLECTOR, "s3:DeleteObject", key)] == []
    assert [key for key in gone if not allowed("s3:DeleteObject", key)] == []


def test_the_collectors_role_is_no_more_than_that() -> None:
    """It writes no version, and deletes neither records, evidence and notices nor anything beside the versions."""
    for key in (MODEL, CONFIG, *BESIDE, PATHS.manifest, decision_key(PATHS)):
        assert not allowed("s3:PutObject", key), key
    stays = [
        *NOTICES,
        EVENT,
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
    """Only what is written over again and again, for pages and to ask the store, loses its history; nothing expires."""
    rules = [one for one in LIFECYCLE["Rules"] if "NoncurrentVersionExpiration" in one]
    prefixes = [one["Filter"]["Prefix"] for one in rules]
    assert all(any(key.startswith(prefix) for prefix in prefixes) for key in FOR_PAGES)
    others = [*NOT_FOR_PAGES, *AUDIT, *OF_A_GC_RUN[:4], TOMBSTONE]
    assert any(f"{PROBE_PREFIX}0123".startswith(prefix) for prefix in prefixes)
    assert not [key for key in others if any(key.startswith(prefix) for prefix in prefixes)]
    assert {
        key for one in LIFECYCLE["Rules"] for key in one if key.endswith(("Expiration", "Transitions"))
    } == {"NoncurrentVersionExpiration"}
