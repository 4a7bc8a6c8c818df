"""include/manifests/queue on moto's server (emulated): what the queue holds is what intake reads, or a dead letter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from slipway_core.intake import IncomingVersion, parse_messages
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.store.moto_server import moto_server

FOLDER = PROJECT_ROOT / "include" / "manifests" / "queue"
BUCKET, ACCOUNT, REGION = "my-bucket", "123456789012", "us-east-1"
TOPIC = "slipway-landed"


def manifest(name: str) -> Any:
    """Return a file of the folder, with its placeholders filled in as its README says."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    for word, value in {"BUCKET": BUCKET, "ACCOUNT": ACCOUNT, "REGION": REGION}.items():
        text = text.replace(word, value)
    return json.loads(text)


class Aws:
    """Clients of one emulated account."""

    def __init__(self, endpoint: str) -> None:
        options: Any = {
            "endpoint_url": endpoint,
            "region_name": REGION,
            "aws_access_key_id": "x",
            "aws_secret_access_key": "x",
        }
        self.s3: Any = boto3.client("s3", **options)
        self.sqs: Any = boto3.client("sqs", **options)
        self.sns: Any = boto3.client("sns", **options)
        self.dead_letters = self._queue("slipway-intake-dead-letters", "dead-letters.json")
        self.queue = self._queue("slipway-intake", "queue.json")
        self.s3.create_bucket(Bucket=BUCKET)

    def _queue(self, name: str, attributes: str) -> str:
        made = self.sqs.create_queue(QueueName=name, Attributes=manifest(attributes))
        return str(made["QueueUrl"])

    def take_away(self) -> None:
        """Delete queues and topics: moto keeps them for as long as the process runs."""
        for topic in self.sns.list_topics()["Topics"]:
            self.sns.delete_topic(TopicArn=topic["TopicArn"])
        for queue in (self.queue, self.dead_letters):
            self.sqs.delete_queue(QueueUrl=queue)

    def bodies(self) -> list[str]:
        """Return what lies in the queue now; it stays there."""
        got = self.sqs.receive_message(
            QueueUrl=self.queue, MaxNumberOfMessages=10, VisibilityTimeout=0, WaitTimeSeconds=0
        )
        return [str(message["Body"]) for message in got.get("Messages", [])]

    def land(self) -> None:
        """Upload a version, ready.json last."""
        for name in ("model.onnx", "ready.json"):
            self.s3.put_object(Bucket=BUCKET, Key=f"incoming/churn/7/{name}", Body=b"{}")


@pytest.fixture
def aws() -> Iterator[Aws]:
    """An account with the queues of the manifests and the bucket."""
    with moto_server() as endpoint:
        account = Aws(endpoint)
        yield account
        account.take_away()


def test_the_bucket_tells_of_ready_files_alone(aws: Aws) -> None:
    """By the notification's filter the upload is one message, besides S3's test event, which is nothing."""
    aws.s3.put_bucket_notification_configuration(
        Bucket=BUCKET, NotificationConfiguration=manifest("notification.json")
    )
    aws.land()
    result = parse_messages(aws.bodies(), BUCKET)
    assert (result.versions, result.ignored) == ([IncomingVersion("churn", 7)], [])


@pytest.mark.parametrize("raw", ["true", "false"], ids=["raw delivery", "wrapped"])
def test_sns_tells_of_ready_files(aws: Aws, raw: str) -> None:
    """A topic between bucket and queue changes nothing, whatever its subscription's form of delivery is."""
    topic = aws.sns.create_topic(Name=TOPIC)["TopicArn"]
    queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:slipway-intake"
    aws.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue, Attributes={"RawMessageDelivery": raw})
    told = dict(manifest("notification.json")["QueueConfigurations"][0])
    del told["QueueArn"]
    aws.s3.put_bucket_notification_configuration(
        Bucket=BUCKET, NotificationConfiguration={"TopicConfigurations": [{**told, "TopicArn": topic}]}
    )
    aws.land()
    result = parse_messages(aws.bodies(), BUCKET)
    assert (result.versions, result.unreadable) == ([IncomingVersion("churn", 7)], [])


def test_a_message_that_nobody_deletes_is_a_dead_letter(aws: Aws) -> None:
    """After five receptions it lies in the second queue, and the first one goes on without it."""
    aws.sqs.send_message(QueueUrl=aws.queue, MessageBody="nobody takes this")
    received = [aws.bodies() for _ in range(6)]
    assert received == [["nobody takes this"]] * 5 + [[]]
    dead = aws.sqs.receive_message(QueueUrl=aws.dead_letters, WaitTimeSeconds=0)
    assert [message["Body"] for message in dead["Messages"]] == ["nobody takes this"]


def test_who_may_write_to_the_queue_is_named() -> None:
    """Only the bucket, one topic and one rule of the account may, and the dead letters come from this queue alone."""
    policy = json.loads(manifest("queue.json")["Policy"])
    sources = {
        statement["Principal"]["Service"]: statement["Condition"]["ArnEquals"]["aws:SourceArn"]
        for statement in policy["Statement"]
    }
    assert sources == {
        "s3.amazonaws.com": f"arn:aws:s3:::{BUCKET}",
        "sns.amazonaws.com": f"arn:aws:sns:{REGION}:{ACCOUNT}:{TOPIC}",
        "events.amazonaws.com": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{TOPIC}",
    }
    allowed = json.loads(manifest("dead-letters.json")["RedriveAllowPolicy"])
    assert allowed["sourceQueueArns"] == [f"arn:aws:sqs:{REGION}:{ACCOUNT}:slipway-intake"]
