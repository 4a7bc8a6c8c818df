"""Slipway's own roles, made by their CloudFormation stack, and enforced by moto's IAM on real requests.

moto's IAM knows roles' own policies. The bucket's policy, which denies, is evaluated in tests/unit/manifests: moto's
CloudFormation creates no policy of a bucket or a queue.
"""

from __future__ import annotations

from typing import Any

import pytest
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count

from tests.support.infrastructure.account import Account, is_taken

BUCKET = "slipway-roles"
EVIDENCE = "models/digits/3/evidence/digits-3/"
VERSION = ["models/digits/3/repository/digits/3/model.onnx", "models/digits/3/manifest.json"]
EVENT = "records/digits/3/000202-promoted.json"
DECISIVE = [
    *VERSION,
    EVENT,
    "records/digits/freezes/20261228T080000Z-0123456789abcdef.lifted.json",
    "operations/pins/digits/3.json",
    "live/digits.json",
    f"{EVIDENCE}release.json",
    f"{EVIDENCE}benchmark/verdict.json",
    "models/digits/3/evidence/tuning-1/trials/0001.json",
    "staging/digits/3/model.onnx",
    "new/digits.json",
]
OF_PODS = [
    "work/digits/3/convert/model.onnx",
    f"{EVIDENCE}smoke_test/result.json",
    f"{EVIDENCE}benchmark/raw/candidate-1.json",
    f"{EVIDENCE}scoring/scores.npz",
    "caches/tensorrt/sm90.cache",
]
OF_THE_COLLECTOR = ["operations/gc/gc-1/plan.json", "operations/audit/repository_gc-approved.json"]
VIEW = "views/models/digits.json"
MAY = {
    "pods": OF_PODS,
    "pages": [VIEW],
    "models": [],
    "staging": [],
    "collector": [*OF_THE_COLLECTOR, "models/digits/3/deleted.json", "records/digits/active.json", VIEW],
}
DELETES = {
    "pods": [OF_PODS[0], OF_PODS[1]],
    "pages": [],
    "models": [],
    "staging": [],
    "collector": [*VERSION, "records/digits/active.json"],
}
ALL = sorted({*DECISIVE, *OF_PODS, *OF_THE_COLLECTOR, *(key for keys in MAY.values() for key in keys)})
# What it may not do of this the bucket's policy denies: tombstones, the collector's runs, former versions.
for workers in ("airflow", "publisher"):
    MAY[workers] = DELETES[workers] = [key for key in ALL if not key.startswith(("new/", "caches/"))]
OF_SLIPWAY = ("incoming/", "models/", "records/", "operations/", "fleets/", "views/", "live/")
READS: dict[str, tuple[str, ...]] = {
    "airflow": (*OF_SLIPWAY, "work/", "staging/"),
    "publisher": (*OF_SLIPWAY, "work/", "staging/"),
    "collector": ("models/", "records/", "operations/", "views/"),
    "pods": ("incoming/", "work/digits/3/convert/", "models/", "caches/"),
    "pages": OF_SLIPWAY,
    "models": tuple(VERSION),
    "staging": ("staging/",),
}


@pytest.mark.parametrize("role", sorted(MAY))
@mock_aws
def test_a_role_writes_and_deletes_what_its_task_is_and_nothing_else(role: str) -> None:
    """Whole objects, uploads in parts and deletions of every kind, by the role's own policy (emulated IAM)."""
    account = Account()
    account.deploy("intake-queue", BucketName=BUCKET)
    account.deploy("storage", BucketName=BUCKET)
    account.deploy("roles", BucketName=BUCKET)
    for key in ALL:
        account.s3.put_object(Bucket=BUCKET, Key=key, Body=b"as it was")
    found = _asked(account.as_role(f"slipway-{role}", "s3"))
    for way in ("put", "in parts"):
        assert found[way] == sorted(MAY[role]), way
    assert found["deleted"] == sorted(DELETES[role])
    assert found["read"] == sorted(key for key in ALL if key.startswith(READS[role]))


@set_initial_no_auth_action_count(0)  # type: ignore[untyped-decorator]
def _asked(client: Any) -> dict[str, list[str]]:
    """Which keys a role could read, write and delete."""

    def put(key: str) -> bool:
        return is_taken(lambda: client.put_object(Bucket=BUCKET, Key=key, Body=b"forged"))

    def in_parts(key: str) -> bool:
        return is_taken(lambda: client.create_multipart_upload(Bucket=BUCKET, Key=key))

    def delete(key: str) -> bool:
        return is_taken(lambda: client.delete_object(Bucket=BUCKET, Key=key))

    def read(key: str) -> bool:
        return is_taken(lambda: client.get_object(Bucket=BUCKET, Key=key))

    return {
        way: sorted(key for key in ALL if act(key))
        for way, act in (("read", read), ("put", put), ("in parts", in_parts), ("deleted", delete))
    }
