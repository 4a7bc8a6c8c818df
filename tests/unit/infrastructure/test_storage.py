"""The bucket and its queue in the templates: what moto's CloudFormation leaves out without a word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway_infrastructure.intake_queue import intake_queue
from slipway_infrastructure.manifests import read
from slipway_infrastructure.storage import storage
from tests.support.infrastructure.evaluation import Stack

QUEUE_ARN = "arn:aws:sqs:REGION:ACCOUNT:slipway-intake"
TOPIC_ARN = "arn:aws:sns:REGION:ACCOUNT:slipway-landed"
UPLOADS = {
    "Event": "s3:ObjectCreated:*",
    "Filter": {
        "S3Key": {
            "Rules": [{"Name": "prefix", "Value": "incoming/"}, {"Name": "suffix", "Value": "ready.json"}]
        }
    },
}


def bucket(**given: str) -> dict[str, Any]:
    """The bucket's properties."""
    return Stack(storage(), BucketName="BUCKET", **given).properties("Bucket")


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        pytest.param("Queue", {"QueueConfigurations": [{**UPLOADS, "Queue": QUEUE_ARN}]}, id="queue"),
        pytest.param("Topic", {"TopicConfigurations": [{**UPLOADS, "Topic": TOPIC_ARN}]}, id="topic"),
        pytest.param(
            "EventBridge", {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}, id="event-bridge"
        ),
    ],
)
def test_the_bucket_notifies_of_uploads(way: str, expected: dict[str, Any]) -> None:
    """Of those alone that start a release, and in one way: S3 refuses two for the same keys."""
    assert bucket(Notification=way)["NotificationConfiguration"] == expected


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        pytest.param("Queue", set(), id="queue"),
        pytest.param(
            "Topic", {"AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "AWS::SNS::Subscription"}, id="topic"
        ),
        pytest.param("EventBridge", {"AWS::Events::Rule"}, id="event-bridge"),
    ],
)
def test_what_is_between_bucket_and_queue(way: str, expected: set[str]) -> None:
    """A topic or a rule is there only if it is used, with the names that the queue's policy lets write."""
    stack = Stack(intake_queue(), BucketName="BUCKET", Notification=way)
    always = {"AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::CloudWatch::Alarm"}
    assert {one["Type"] for one in stack.resources().values()} - always == expected
    names = [one.get("TopicName", one.get("Name")) for one in _between(stack)]
    assert names == ["slipway-landed"] * len(names)
    assert f'"{QUEUE_ARN}"' in json.dumps(stack.properties("QueuePolicy"))


def _between(stack: Stack) -> list[dict[str, Any]]:
    return [*stack.of_type("AWS::SNS::Topic").values(), *stack.of_type("AWS::Events::Rule").values()]


def test_only_the_bucket_publishes_to_the_topic() -> None:
    """Of this account, and this name; the queue is subscribed."""
    stack = Stack(intake_queue(), BucketName="BUCKET", Notification="Topic")
    subscription = stack.properties("LandedSubscription")
    assert (subscription["Endpoint"], subscription["TopicArn"]) == ("<Queue.Arn>", "<LandedTopic>")
    (statement,) = stack.properties("LandedTopicPolicy")["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "s3.amazonaws.com"}
    assert statement["Condition"] == {
        "ArnEquals": {"aws:SourceArn": "arn:aws:s3:::BUCKET"},
        "StringEquals": {"aws:SourceAccount": "ACCOUNT"},
    }


def test_the_bucket_keeps_versions_and_stays_when_its_stack_is_deleted() -> None:
    """Models and records are never part of a mistake with a stack."""
    found = Stack(storage(), BucketName="BUCKET", Encryption="KMS").resources()
    assert found["Bucket"]["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    for name in ("Bucket", "Key"):
        assert (found[name]["DeletionPolicy"], found[name]["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_nothing_in_the_bucket_is_public() -> None:
    """All four switches are on, and no object has a list of its own."""
    found = bucket()
    assert set(found["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(found["PublicAccessBlockConfiguration"]) == 4
    assert found["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def test_the_lifecycle_is_the_files_and_removes_abandoned_uploads() -> None:
    """The rules of lifecycle.json, and one that concerns no object."""
    *rules, abandoned = bucket()["LifecycleConfiguration"]["Rules"]
    assert [
        {"ID": one.pop("Id"), "Filter": {"Prefix": one.pop("Prefix")}, **one} for one in map(dict, rules)
    ] == read("bucket", "lifecycle")["Rules"]
    assert {key for key in abandoned if key not in ("Id", "Status")} == {"AbortIncompleteMultipartUpload"}
    assert abandoned["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": "7"}


def test_object_lock_is_an_option_without_a_default_retention() -> None:
    """A default retention would keep what is only staged."""
    assert "ObjectLockEnabled" not in bucket()
    found = bucket(ObjectLock="true")
    assert found["ObjectLockEnabled"] is True
    assert "ObjectLockConfiguration" not in found


def test_encryption_is_s3s_or_a_key_of_its_own() -> None:
    """With a key, the roles' stack gets it as an output."""

    def kind(**given: str) -> Any:
        (rule,) = bucket(**given)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        return rule["ServerSideEncryptionByDefault"]

    assert kind() == {"SSEAlgorithm": "AES256"}
    assert kind(Encryption="KMS") == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "<Key.Arn>"}
    assert "KeyArn" not in Stack(storage()).outputs()
    assert Stack(storage(), Encryption="KMS").outputs()["KeyArn"] == "<Key.Arn>"
    assert Stack(storage(), Encryption="KMS").properties("Key")["EnableKeyRotation"] is True


def test_dead_letters_raise_an_alarm() -> None:
    """One message is enough; a topic is notified if one is named."""
    alarm = Stack(intake_queue()).properties("DeadLettersAlarm")
    assert (alarm["MetricName"], alarm["Threshold"]) == ("ApproximateNumberOfMessagesVisible", 0)
    assert "AlarmActions" not in alarm
    topic = "arn:aws:sns:eu-west-1:111122223333:pager"
    assert Stack(intake_queue(), AlarmTopicArn=topic).properties("DeadLettersAlarm")["AlarmActions"] == [
        topic
    ]
