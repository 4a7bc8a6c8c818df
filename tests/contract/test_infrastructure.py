"""The stacks that moto's CloudFormation knows, created by it (emulated): names, references, and rights on the queue."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count

from slipway_infrastructure.manifests import image_names
from tests.support.infrastructure.account import REGION, Account, is_taken

BUCKET = "slipway-stacks"
ROLES = ("publisher", "airflow", "collector", "pages", "pods", "models", "staging")


@pytest.fixture
def account() -> Iterator[Account]:
    with mock_aws(), warnings.catch_warnings():
        # moto says of each kind that it leaves out: test_storage.py looks at those in the templates.
        warnings.filterwarnings("ignore", message="Tried to parse .* not supported by moto")
        yield Account()


def test_queue_bucket_and_roles_are_created(account: Account) -> None:
    """With the names that connections, variables and policies have."""
    outputs = account.deploy("intake-queue", BucketName=BUCKET)
    account.deploy("storage", BucketName=BUCKET)
    account.deploy("roles", BucketName=BUCKET)
    assert outputs["QueueUrl"].endswith("/slipway-intake")
    attributes = account.sqs.get_queue_attributes(QueueUrl=outputs["QueueUrl"], AttributeNames=["All"])
    assert attributes["Attributes"]["QueueArn"] == outputs["QueueArn"]
    assert '"maxReceiveCount": 5' in attributes["Attributes"]["RedrivePolicy"]
    assert [one["Name"] for one in account.s3.list_buckets()["Buckets"]] == [BUCKET]
    names = {one["RoleName"] for one in account.client("iam").list_roles()["Roles"]}
    assert names == {f"slipway-{role}" for role in ROLES}


@pytest.mark.parametrize("way", ["Topic", "EventBridge"])
def test_uploads_reach_the_queue_another_way(account: Account, way: str) -> None:
    """By a topic, or a rule whose target it is."""
    queue = account.deploy("intake-queue", BucketName=BUCKET, Notification=way)["QueueArn"]
    account.deploy("storage", BucketName=BUCKET, Notification=way)
    if way == "Topic":
        (topic,) = account.client("sns").list_topics()["Topics"]
        assert topic["TopicArn"].endswith(":slipway-landed")
    else:
        found = account.client("events").list_targets_by_rule(Rule="slipway-landed")
        assert [one["Arn"] for one in found["Targets"]] == [queue]


def test_repositories_are_created(account: Account) -> None:
    """One for each image, and a tag is never moved to another image."""
    outputs = account.deploy("registry")
    found = account.client("ecr").describe_repositories()["repositories"]
    assert {one["repositoryName"]: one["imageTagMutability"] for one in found} == {
        f"slipway/{name}": "IMMUTABLE" for name in image_names()
    }
    assert outputs["Registry"] == f"123456789012.dkr.ecr.{REGION}.amazonaws.com/slipway"


def test_only_the_triggerer_reads_the_queue(account: Account) -> None:
    """It receives and deletes, and no role writes, empties or removes it (emulated IAM)."""
    url = account.deploy("intake-queue", BucketName=BUCKET)["QueueUrl"]
    account.deploy("roles", BucketName=BUCKET)
    clients = {role: account.as_role(f"slipway-{role}", "sqs") for role in ROLES}
    assert {role: asked_of_the_queue(client, url) for role, client in clients.items()} == {
        role: {"receive", "delete"} if role == "airflow" else set() for role in ROLES
    }


@set_initial_no_auth_action_count(0)  # type: ignore[untyped-decorator]
def asked_of_the_queue(client: Any, url: str) -> set[str]:
    """Which requests a role's client may send to the queue."""

    def delete() -> None:
        try:
            client.delete_message(QueueUrl=url, ReceiptHandle="unknown")
        except ClientError as error:
            if error.response["Error"]["Code"] != "ReceiptHandleIsInvalid":
                raise

    acts = {
        "receive": lambda: client.receive_message(QueueUrl=url),
        "delete": delete,
        "send": lambda: client.send_message(QueueUrl=url, MessageBody="forged"),
        "purge": lambda: client.purge_queue(QueueUrl=url),
        "remove": lambda: client.delete_queue(QueueUrl=url),
        "configure": lambda: client.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"}),
    }
    return {name for name, act in acts.items() if is_taken(act)}
