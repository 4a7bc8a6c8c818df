"""SNS, SQS and SES as receivers, against moto's servers: no key in the address, the provider's connection instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from slipway.notifiers.channels.aws import AwsChannel
from slipway.notifiers.connection import channel_of
from slipway.notifiers.receiver import NotDeliveredError
from slipway_core.errors import InputMissingError
from slipway_core.operations.notices.message import Message
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.store.connections import aws_connection

MESSAGE = Message(
    "1" * 32, "digits version 3 was promoted ✓", "All users have it.", "success", {"event": "promoted"}
)
Client = Callable[[str], Any]


@pytest.fixture
def client(s3_endpoint: str, connections: None) -> Client:
    """Makes clients of moto's services."""
    keys = {"aws_access_key_id": "slipway-test", "aws_secret_access_key": "slipway-test"}
    return lambda name: boto3.client(name, endpoint_url=s3_endpoint, region_name="us-east-1", **keys)


def tell(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Send the message by an Airflow connection with this address."""
    monkeypatch.setenv("AIRFLOW_CONN_TOLD", json.dumps({"conn_type": "generic", "password": address}))
    channel_of("told").send(MESSAGE)


def received(sqs: Any, queue: str) -> dict[str, Any]:
    (one,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    return dict(one)


def test_a_queue_gets_the_data_of_the_notice(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON for programs, with the notice's name among its attributes."""
    sqs = client("sqs")
    queue = sqs.create_queue(QueueName="told")["QueueUrl"]
    tell(monkeypatch, f"sqs+aws://{queue.partition('://')[2]}")
    found = received(sqs, queue)
    assert json.loads(found["Body"]) == {"event": "promoted"}
    assert found["MessageAttributes"]["slipway-notice"]["StringValue"] == MESSAGE.id


def test_a_topic_gets_the_text(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a subject that SNS takes; whoever has subscribed gets it."""
    sns, sqs = client("sns"), client("sqs")
    topic = sns.create_topic(Name="releases")["TopicArn"]
    queue = sqs.create_queue(QueueName="subscribed")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    tell(monkeypatch, f"sns+aws://{topic}")
    found = json.loads(received(sqs, queue)["Body"])
    assert (found["Message"], found["Subject"]) == (MESSAGE.text, "digits version 3 was promoted ?")
    assert found["MessageAttributes"]["severity"]["Value"] == "success"


def test_a_mail_is_sent_by_a_sender_that_ses_knows(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that it does not know is refused, and the reason names neither of the addresses."""
    ses = client("ses")
    address = "ses+aws://slipway@example.org/oncall@example.org,second@example.org"
    with pytest.raises(NotDeliveredError) as caught:
        tell(monkeypatch, address)
    assert "MessageRejected" in str(caught.value)
    assert "slipway@example.org" not in str(caught.value)
    ses.verify_email_identity(EmailAddress="slipway@example.org")
    sent = ses.get_send_quota()["SentLast24Hours"]
    tell(monkeypatch, address)
    assert ses.get_send_quota()["SentLast24Hours"] == sent + 2


def test_what_is_not_there_is_not_delivered(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that does not exist, and a server that does not listen."""
    topic = "sns+aws://arn:aws:sns:us-east-1:123456789012:nobodys"
    with pytest.raises(NotDeliveredError, match="NotFound"):
        tell(monkeypatch, topic)
    away = aws_connection(f"http://{LOOPBACK}:{free_port()}")
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", away)
    with pytest.raises(NotDeliveredError, match="EndpointConnectionError"):
        tell(monkeypatch, topic)


@pytest.mark.parametrize(
    "address",
    [
        "sns+aws://releases",
        "sqs+aws://queue",
        "ses+aws://nobody/nobody",
        "s3+aws://bucket/key",
        "sns+aws://x y",
    ],
)
def test_another_address_is_refused(address: str) -> None:
    """Before anything is sent; the address is not in the error."""
    with pytest.raises(InputMissingError) as caught:
        AwsChannel(address)
    assert address not in str(caught.value)
