"""The policies of Slipway's own roles, enforced by moto's IAM on real requests.

moto's IAM knows roles' own policies. The bucket's policy, which denies, is evaluated in tests/unit/manifests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count

from tests.support.store.bucket_policy import FOLDER

BUCKET = "slipway-roles"
CAN_BE_TRUSTED = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
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
    "collector": [*OF_THE_COLLECTOR, "models/digits/3/deleted.json", "records/digits/active.json", VIEW],
}
DELETES = {
    "pods": [OF_PODS[0], OF_PODS[1]],
    "pages": [],
    "collector": [*VERSION, "records/digits/active.json"],
}
ALL = sorted({*DECISIVE, *OF_PODS, *OF_THE_COLLECTOR, *(key for keys in MAY.values() for key in keys)})
# What it may not do of this the bucket's policy denies: tombstones, the collector's runs, former versions.
MAY["airflow"] = DELETES["airflow"] = [key for key in ALL if not key.startswith(("new/", "caches/"))]


def is_taken(act: Callable[[], Any]) -> bool:
    """Whether a request is carried out; what is refused for another reason than a missing right is an error."""
    try:
        act()
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("AccessDenied", "403"):
            raise
        return False
    return True


@pytest.mark.parametrize("role", sorted(MAY))
@mock_aws
def test_a_role_writes_and_deletes_what_its_task_is_and_nothing_else(role: str) -> None:
    """Whole objects, uploads in parts and deletions of every kind, by the role's own policy (emulated IAM)."""
    owner = boto3.client("s3", region_name="us-east-1")
    owner.create_bucket(Bucket=BUCKET)
    for key in ALL:
        owner.put_object(Bucket=BUCKET, Key=key, Body=b"as it was")
    iam = boto3.client("iam", region_name="us-east-1")
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(CAN_BE_TRUSTED))["Role"]["Arn"]
    policy = (FOLDER / f"{role}.json").read_text().replace("BUCKET", BUCKET)
    iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=policy)
    given = boto3.client("sts", region_name="us-east-1").assume_role(RoleArn=arn, RoleSessionName="task")
    keys = given["Credentials"]
    found = _asked(
        boto3.client(
            "s3",
            region_name="us-east-1",
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )
    )
    for way in ("put", "in parts"):
        assert found[way] == sorted(MAY[role]), way
    assert found["deleted"] == sorted(DELETES[role])


@set_initial_no_auth_action_count(0)  # type: ignore[untyped-decorator]
def _asked(client: Any) -> dict[str, list[str]]:
    """Which keys a role could write and delete."""

    def put(key: str) -> bool:
        return is_taken(lambda: client.put_object(Bucket=BUCKET, Key=key, Body=b"forged"))

    def in_parts(key: str) -> bool:
        return is_taken(lambda: client.create_multipart_upload(Bucket=BUCKET, Key=key))

    def delete(key: str) -> bool:
        return is_taken(lambda: client.delete_object(Bucket=BUCKET, Key=key))

    return {
        way: sorted(key for key in ALL if act(key))
        for way, act in (("put", put), ("in parts", in_parts), ("deleted", delete))
    }
