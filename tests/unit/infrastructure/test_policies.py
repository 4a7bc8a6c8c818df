"""The policies in the templates are those of include/manifests, and exist nowhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import slipway_infrastructure
from slipway_infrastructure.intake_queue import intake_queue
from slipway_infrastructure.manifests import MANIFESTS, read
from slipway_infrastructure.roles import roles
from slipway_infrastructure.storage import TLS_ONLY, storage
from tests.support.infrastructure.evaluation import Stack

FOLDER = Path(slipway_infrastructure.__file__).parent
OF_ROLES = {
    "slipway-publisher": {"own": "bucket/airflow"},
    "slipway-airflow": {"own": "bucket/airflow", "queue": "queue/receiver"},
    "slipway-collector": {"own": "bucket/collector"},
    "slipway-pods": {"own": "bucket/pods"},
    "slipway-pages": {"own": "bucket/pages"},
    "slipway-models": {"own": "bucket/models"},
    "slipway-staging": {"own": "bucket/staging"},
}


def of_the_file(name: str) -> Any:
    """A file of include/manifests, with its placeholders."""
    return json.loads((MANIFESTS / f"{name}.json").read_text(encoding="utf-8"))


def test_the_buckets_policy_is_the_files_and_refuses_requests_without_tls() -> None:
    """Statement by statement; the one that is added denies, and no permission can outweigh it."""
    document = Stack(storage(), BucketName="BUCKET").properties("BucketPolicy")["PolicyDocument"]
    *statements, added = document["Statement"]
    assert {**document, "Statement": statements} == of_the_file("bucket/policy")
    assert added == TLS_ONLY
    assert (added["Effect"], added["Principal"]) == ("Deny", "*")


def test_each_roles_policies_are_the_files() -> None:
    """A role has its own file's rights; beside them only the publisher may become the collector."""
    stack = Stack(roles(), BucketName="BUCKET")
    found = {
        one["RoleName"]: {policy["PolicyName"]: policy["PolicyDocument"] for policy in one["Policies"]}
        for one in stack.of_type("AWS::IAM::Role").values()
    }
    becomes = found["slipway-publisher"].pop("collector")
    assert found == {
        role: {name: of_the_file(file) for name, file in files.items()} for role, files in OF_ROLES.items()
    }
    (statement,) = becomes["Statement"]
    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert statement["Resource"] == "arn:aws:iam::ACCOUNT:role/slipway-collector"


def test_the_queues_are_those_of_the_files() -> None:
    """Attributes of SQS's API and of CloudFormation have one meaning, though the API has each value as a text."""
    stack = Stack(intake_queue(), BucketName="BUCKET")
    dead_letters, queue = stack.properties("DeadLetters"), stack.properties("Queue")
    queue["Policy"] = stack.properties("QueuePolicy")["PolicyDocument"]
    for name, found in (("queue", queue), ("dead-letters", dead_letters)):
        for key, text in of_the_file(f"queue/{name}").items():
            wanted = json.loads(text) if isinstance(text, str) and text[:1] == "{" else text
            assert _texts(found[key]) == _texts(wanted), key
    assert (queue["QueueName"], dead_letters["QueueName"]) == (
        "slipway-intake",
        "slipway-intake-dead-letters",
    )


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _texts(one) for key, one in value.items()}
    return [_texts(one) for one in value] if isinstance(value, list) else str(value)


def test_the_rule_is_the_files() -> None:
    """EventBridge leads to the queue what the file says."""
    stack = Stack(intake_queue(), BucketName="BUCKET", Notification="EventBridge")
    assert stack.properties("LandedRule")["EventPattern"] == of_the_file("queue/rule")


def test_no_placeholder_is_left() -> None:
    """A placeholder that nothing replaces would be a name in AWS."""
    for template in (storage(), roles(), intake_queue()):
        assert re.findall(r"\b(BUCKET|ACCOUNT|REGION)\b", json.dumps(template)) == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_program_repeats_no_policy(path: Path) -> None:
    """Rights on objects of the bucket and on the queue are in the files alone."""
    source = path.read_text(encoding="utf-8")
    assert re.findall(r"\"(?:s3:(?:Get|Put|Delete|List)|sqs:)\w*\"", source) == []


def test_a_file_that_is_missing_is_an_error() -> None:
    """No template is made of a policy that can't be read."""
    with pytest.raises(OSError, match=r"other\.json"):
        read("bucket", "other")
