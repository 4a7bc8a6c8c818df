"""The bucket's policy, object by object: what docs/security.md says of each kind, for each role and action."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slipway_core import bucket_layout
from slipway_core.doctor.report import REPORT_KEY
from slipway_core.fleet.document import fleet_key
from slipway_core.fleet.watch import watch_key
from slipway_core.operations import layout
from slipway_core.operations.freezes import first_key_after, freezes_prefix, lifted_key
from slipway_core.operations.pins import pin_key
from slipway_core.operations.revalidation.findings import finding_key
from slipway_core.publishing.build_fingerprint import RECIPE_FILE
from slipway_core.publishing.manifest import GOLDEN_FILE
from slipway_core.publishing.publication import decision_key, origin_prefix
from slipway_core.publishing.tombstone import DELETED_MANIFEST_FILE, tombstone_key
from slipway_core.record.events import event_key
from slipway_core.record.segment import segment_name
from slipway_rules.pod_files import SBOM_FILE
from slipway_rules.version_manifest import SIGNATURE_FILE
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.store.bucket_policy import (
    AIRFLOW,
    COLLECTOR,
    OTHERS,
    PAGES,
    PODS,
    PUBLISHER,
    SLIPWAYS,
    denied,
)

ROLES = (*SLIPWAYS, *OTHERS, None)
MEANT = {
    "airflow": {PUBLISHER, AIRFLOW},
    "publisher": {PUBLISHER},
    "collector": {COLLECTOR},
    "pods": {PODS},
    "pages": {PAGES},
    "others": {*OTHERS, None},
    "nobody": set[str | None](),
}
KEPT = ("models/", "records/", "operations/", "fleets/")
"""Below these only the collector deletes former versions."""

NOW = datetime(2026, 11, 22, tzinfo=UTC)
PATHS = bucket_layout.repository_paths("digits", 3)
FREEZE = f"{freezes_prefix(None)}20261228T080000Z-0123456789abcdef.json"
RUN = bucket_layout.evidence_prefix("digits", 3, "digits:3/../repository")
TUNING = bucket_layout.evidence_prefix("digits", 3, bucket_layout.tuning_id("manual__2026-11-22T10:00:00"))
# By the name of what makes them: every function, field or constant of the source that says where something lies.
MADE = {
    "incoming": [f"{PATHS.incoming}deep/model.onnx"],
    "ready": [PATHS.ready],
    "incoming_prefix": [f"{bucket_layout.incoming_prefix('digits')}4/golden.npz"],
    "work": [f"{PATHS.work}model.onnx", f"{PATHS.work}gpu/result.json"],
    "work_prefix": [f"{PATHS.work}gpu/sbom.json"],
    "origin_prefix": [f"{origin_prefix(PATHS)}{'0' * 64}"],
    "root": [PATHS.root + name for name in (GOLDEN_FILE, RECIPE_FILE, SBOM_FILE, SIGNATURE_FILE)],
    "golden_key": [PATHS.root + GOLDEN_FILE],
    "repository": [f"{PATHS.repository}digits/config.pbtxt", f"{PATHS.repository}evidence/raw/1/model.onnx"],
    "config_file": [PATHS.repository + PATHS.config_file],
    "model_file": [PATHS.repository + PATHS.model_file],
    "manifest": [PATHS.manifest],
    "decision_key": [decision_key(PATHS)],
    "tombstone_key": [tombstone_key(PATHS)],
    "evidence": [f"{PATHS.evidence}{DELETED_MANIFEST_FILE}"],
    "evidence_prefix": [
        *(f"{RUN}{name}" for name in ("release.json", "benchmark/verdict.json", "scoring/gathered.json")),
        *(f"{RUN}{name}/result.json" for name in ("benchmark/attempt-2", "mirror", "scoring", "smoke_test")),
        f"{RUN}benchmark/raw/candidate-1.json",
        f"{RUN}scoring/scores.npz",
        *(f"{TUNING}{name}" for name in ("plan.json", "trials/0001.json", "trials/0001/result.json")),
    ],
    "evidence_key": [f"{RUN}convert.json"],
    "scoring_prefix": [f"{RUN}scoring/given.npz", f"{RUN}scoring/scorer.py"],
    "records": [f"{PATHS.records}000001-release_started.json"],
    "event_key": [event_key("digits", 3, 202, "promoted"), event_key("digits", 3, 1_000_000, "approved")],
    "segment_name": [f"{PATHS.records}{segment_name(0)}"],
    "freezes_prefix": [FREEZE, f"{freezes_prefix('digits')}20261228T080000Z-0123456789abcdef.json"],
    "first_key_after": [first_key_after("digits", NOW).rstrip("~") + "-0123456789abcdef.json"],
    "lifted_key": [lifted_key(FREEZE)],
    "watch_journal_key": ["records/digits/canary-watch.json"],
    "gathered_key": [bucket_layout.gathered_key("digits")],
    "GC_PREFIX": [f"{layout.gc_prefix('gc-2')}page.html"],
    "REVALIDATION_PREFIX": [f"{layout.revalidation_prefix('run-2')}revalidation.html"],
    "lock_key": ["records/digits/active.json"],
    "GC_APPROVAL_KEY": [layout.GC_APPROVAL_KEY],
    "REPORT_KEY": [REPORT_KEY],
    "OUTBOX_PREFIX": [f"{layout.OUTBOX_PREFIX}20261122T000000Z-{'0' * 32}.json"],
    "UNDELIVERED_PREFIX": [f"{layout.UNDELIVERED_PREFIX}{'0' * 32}.json"],
    "outbox_key": [layout.outbox_key(NOW, "0" * 32)],
    "undelivered_key": [layout.undelivered_key("0" * 32)],
    "gc_prefix": [f"{layout.gc_prefix('gc-1')}page.html"],
    "run_plan_key": [layout.run_plan_key("gc-1")],
    "plan_key": [layout.plan_key("gc-1", "digits")],
    "result_key": [layout.result_key("gc-1", "digits")],
    "pin_prefix": [f"{layout.pin_prefix('digits')}3.json"],
    "pin_key": [pin_key("digits", 3)],
    "revalidation_prefix": [f"{layout.revalidation_prefix('run-1')}revalidation.html"],
    "revalidation_report_key": [layout.revalidation_report_key("run-1", "digits")],
    "findings_prefix": [f"{layout.findings_prefix('digits')}3-published.json"],
    "finding_key": [finding_key("digits", "3-published")],
    "latency_reference_key": [layout.latency_reference_key("digits", 3)],
    "audit_key": [layout.audit_key("digits", 3, "gc-1", "deletion-begun")],
    "PROBE_PREFIX": [f"{layout.PROBE_PREFIX}0123"],
    "MODEL_VIEWS_PREFIX": [f"{bucket_layout.MODEL_VIEWS_PREFIX}digits.json"],
    "LIVE_PREFIX": [f"{bucket_layout.LIVE_PREFIX}digits.json"],
    "model_view_key": [bucket_layout.model_view_key("digits")],
    "live_key": [bucket_layout.live_key("digits")],
    "staged_key": [bucket_layout.staged_key("digits/3/model.onnx", "digits_baseline")],
    "fleet_key": [fleet_key("edge")],
    "watch_key": [watch_key("edge")],
    "repository_prefix": ["fleets/edge/repository/digits/3/model.onnx", "fleets/edge/placed/digits.json"],
    "caches": ["caches/tensorrt/sm90.cache"],
}
KEYS = sorted({key for keys in MADE.values() for key in keys})
NOT_IN_THE_BUCKET = {"signing_key", "load_signing_key", "key", "_key"}
SOURCES = [PROJECT_ROOT / "include" / "slipway_core", PROJECT_ROOT / "plugins" / "slipway"]
PLACES = {
    "MODEL": r"[a-z_][a-z0-9_-]*",
    "VERSION": r"[0-9]+",
    "FILE": r"[^/].*",
    "STAGE": r"[a-z_]+(/[^/]+)?",
    "SHA256": r"[0-9a-f]{64}",
    "SEQ": r"[0-9]{6,}",
    "UNTIL": r"[0-9]{8}T[0-9]{6}Z",
    "DUE": r"[0-9]{8}T[0-9]{6}Z",
    "FIRST": r"[0-9]{6,}",
    "LAST": r"[0-9]{6,}",
    "ID": r"[0-9a-f]+",
}


def rows() -> Iterator[tuple[re.Pattern[str], dict[str, set[str | None]]]]:
    """The table's rows: a pattern of keys, and who may do what."""
    page = (PROJECT_ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## Who may write what\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `"):
            continue
        first, *more = re.findall(r"`([^`]+)`", cells[0])
        patterns = [first, *(f"{first.rpartition('/')[0]}/{name}" for name in more)]
        rights = {
            what: set().union(*(MEANT[role.strip()] for role in cell.split(",")))
            for what, cell in zip(("create", "replace", "delete"), cells[1:], strict=True)
        }
        for pattern in patterns:
            words = re.split(r"([A-Z][A-Z0-9]+)", pattern)
            yield (
                re.compile(
                    "".join(
                        PLACES.get(one, r"[^/]+") if n % 2 else re.escape(one) for n, one in enumerate(words)
                    )
                ),
                rights,
            )


ROWS = list(rows())


def rights_of(key: str) -> dict[str, set[str | None]]:
    """What the table says of an object: the row that says most about its key."""
    found = [(pattern, rights) for pattern, rights in ROWS if pattern.fullmatch(key)]
    assert found, f"docs/security.md says nothing of {key}"
    return max(found, key=lambda one: _said(one[0]))[1]


def _said(pattern: re.Pattern[str]) -> int:
    return len(re.sub(r"\[[^]]*\][*+?]?|\{[^}]*\}|\.\*", "", pattern.pattern))


@pytest.mark.parametrize("key", KEYS)
def test_each_kind_is_written_by_whom_the_page_names_and_by_nobody_else(key: str) -> None:
    """Creating, replacing, deleting, tagging, uploads in parts and former versions, for every role."""
    rights = rights_of(key)
    history = {COLLECTOR} if key.startswith(KEPT) else set(ROLES)
    asked = {
        ("s3:PutObject", True): rights["create"],
        ("s3:PutObject", False): rights["replace"],
        ("s3:PutObjectTagging", False): rights["create"],
        ("s3:PutObjectAcl", False): rights["create"],
        ("s3:DeleteObject", False): rights["delete"],
        ("s3:DeleteObjectVersion", False): rights["delete"] & history,
    }
    wrong = [
        (role, action, once, "denied by" if found else "allowed", found)
        for ((action, once), may), role in itertools.product(asked.items(), ROLES)
        if bool(found := denied(role, action, key, if_none_match=once)) == (role in may)
    ]
    assert not wrong


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:GetObjectVersion", "s3:ListMultipartUploadParts"])
def test_reading_is_left_to_each_roles_own_policy(action: str) -> None:
    """The policy says nothing of who may read, nor of the bucket itself."""
    for key, role in itertools.product(KEYS, ROLES):
        assert denied(role, action, key) == []
    for bucket_action in ("s3:ListBucket", "s3:PutBucketPolicy", "s3:ListBucketMultipartUploads"):
        assert denied(OTHERS[-1], bucket_action, "") == []


@pytest.mark.parametrize("role", ROLES)
def test_what_nobody_has_thought_of_is_denied(role: str | None) -> None:
    """A prefix, and an action, that nobody knows yet are denied to all; whoever adds one is told by these tests."""
    for once in (True, False):
        assert denied(role, "s3:PutObject", "new/digits.json", if_none_match=once)
    event = "records/digits/3/000202-promoted.json"
    if role not in (PUBLISHER, AIRFLOW):
        assert denied(role, "s3:ReplicateObject", event)
    if role not in (PUBLISHER, AIRFLOW, COLLECTOR):
        for action in ("s3:RestoreObject", "s3:ReplicateDelete", "s3:AbortMultipartUpload", "s3:NewAction"):
            assert denied(role, action, event)


def _names(path: Path) -> Iterator[str]:
    """Names in a module that say where something lies."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and re.search(r"_(key|prefix)$|^segment_name$", node.name):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            is_key = re.search(r"_(KEY|PREFIX)$", name) and isinstance(value, ast.Constant)
            if is_key and re.match(r"[a-z]+/", str(value.value)):
                yield name


def test_every_place_of_the_source_is_tried() -> None:
    """Whoever says in code where a new kind of object lies must name one here, and in the page who writes it."""
    found = {
        name
        for folder in SOURCES
        for path in folder.rglob("*.py")
        for name in _names(path)
        if not name.startswith(("parse_", "_"))
    }
    fields = set(bucket_layout.RepositoryPaths.__dataclass_fields__) - {"model", "version"}
    assert (found | fields) - MADE.keys() - NOT_IN_THE_BUCKET == set()


def test_every_row_of_the_page_is_tried() -> None:
    """No row is there of which no key is known."""
    idle = [pattern.pattern for pattern, _ in ROWS if not any(pattern.fullmatch(key) for key in KEYS)]
    assert idle == []
