"""What carries S3's events is taken off, however often it was put around them, and whoever has written the body."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UserError
from slipway_core.intake import IncomingVersion, parse_messages, parse_s3_event
from slipway_core.s3_events.envelopes import LAYERS_LIMIT, RECORDS_LIMIT, ObjectCreated, opened

_KEY = "incoming/churn/7/ready.json"
_CHURN_7 = IncomingVersion("churn", 7)
_PLACE = {"bucket": {"name": "slipway"}, "object": {"key": _KEY}}
_S3: dict[str, Any] = {"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": _PLACE}]}
_EVENT_BRIDGE = {
    "version": "0",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "detail": {"version": "0", **_PLACE, "reason": "PutObject"},
}
_CLOUDTRAIL = {
    "detail-type": "AWS API Call via CloudTrail",
    "source": "aws.s3",
    "detail": {"eventName": "CopyObject", "requestParameters": {"bucketName": "slipway", "key": _KEY}},
}
_TEST_EVENT = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "slipway"}


def _sns(event: Any) -> dict[str, Any]:
    return {"Type": "Notification", "MessageId": "m", "TopicArn": "arn", "Message": json.dumps(event)}


def _sns_of_lambda(event: Any) -> dict[str, Any]:
    return {"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": _sns(event)}]}


def _sqs_of_lambda(event: Any) -> dict[str, Any]:
    return {"Records": [{"eventSource": "aws:sqs", "messageId": "m", "body": json.dumps(event)}]}


CARRIERS: dict[str, Callable[[Any], Any]] = {
    "directly": lambda event: event,
    "by SNS": _sns,
    "by SNS twice": lambda event: _sns(_sns(event)),
    "by SNS and a function": _sns_of_lambda,
    "by SQS and a function": _sqs_of_lambda,
    "by SNS, SQS and a function": lambda event: _sqs_of_lambda(_sns(event)),
    "by a pipe, as a list": lambda event: [event],
}
EVENTS = {"S3": _S3, "EventBridge": _EVENT_BRIDGE, "CloudTrail": _CLOUDTRAIL, "one record": _S3["Records"][0]}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("event", EVENTS)
def test_every_carrier_of_every_event_is_taken_off(event: str, carrier: str) -> None:
    """The version is found, and nothing is complained of."""
    body = json.dumps(CARRIERS[carrier](EVENTS[event]))
    result = parse_s3_event(body, "slipway")
    assert (result.versions, result.ignored, result.unreadable) == ([_CHURN_7], [], [])


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_test_event_is_quiet_in_every_carrier(carrier: str) -> None:
    """What S3 sends when a notification is set up gives neither a version nor a word, also by SNS."""
    result = parse_messages([json.dumps(CARRIERS[carrier](_TEST_EVENT))], "slipway")
    assert (result.versions, result.ignored, result.unreadable) == ([], [], [])


def test_keys_are_quoted_by_s3_alone() -> None:
    """S3 quotes keys in its notifications; EventBridge and CloudTrail do not."""
    quoted: Any = json.loads(json.dumps(_S3))
    quoted["Records"][0]["s3"]["object"]["key"] = "incoming%2Fa+b"
    as_it_is: Any = json.loads(json.dumps(_EVENT_BRIDGE))
    as_it_is["detail"]["object"]["key"] = "incoming/a+b%2F"
    assert opened(json.dumps(quoted)).created == [ObjectCreated("slipway", "incoming/a b")]
    assert opened(json.dumps(as_it_is)).created == [ObjectCreated("slipway", "incoming/a+b%2F")]


@pytest.mark.parametrize(
    "event",
    [
        {**_EVENT_BRIDGE, "detail-type": "Object Deleted"},
        {**_CLOUDTRAIL, "detail": {"eventName": "DeleteObject"}},
        {"detail-type": "EC2 Instance State-change Notification", "source": "aws.ec2", "detail": {}},
        {"Type": "SubscriptionConfirmation", "Token": "t", "TopicArn": "arn", "Message": "confirm"},
    ],
    ids=["a deletion", "a deletion by CloudTrail", "another service", "a subscription"],
)
def test_what_is_readable_and_no_arrival_is_set_aside(event: Any) -> None:
    """It is named, and is no reason to look at everything."""
    result = parse_messages([json.dumps(event)], "slipway")
    assert (result.versions, len(result.ignored), result.unreadable) == ([], 1, [])


@pytest.mark.parametrize(
    "body",
    [
        "incoming/churn/7/ready.json",
        json.dumps({"kind": "storage#object", "bucket": "slipway", "name": _KEY}),
        json.dumps({"Type": "Notification", "Message": "a version has landed"}),
        json.dumps({"Type": "Notification", "Message": {"Records": []}}),
        json.dumps({"detail-type": "Object Created", "detail": {"object": {}}}),
        json.dumps({**_CLOUDTRAIL, "detail": {"eventName": "PutObject", "requestParameters": None}}),
        json.dumps({"Records": [{"eventName": "ObjectCreated:Put"}, *_S3["Records"]]}),
        "x" * 2_000_000,
    ],
    ids=[
        "a key alone",
        "another cloud's",
        "SNS of a text",
        "SNS of no text",
        "EventBridge without a key",
        "CloudTrail without parameters",
        "one record of two",
        "too long",
    ],
)
def test_what_cannot_be_read_is_said_to_be_so(body: str) -> None:
    """It may have told of any version: the caller learns that, in words that are short."""
    (reason,) = parse_messages([body], "slipway").unreadable
    assert len(reason) < 600


def test_carriers_within_carriers_are_bounded() -> None:
    """A body of very many carriers cannot be read, and what lies within it is not looked for."""
    event: Any = _S3
    for _ in range(LAYERS_LIMIT + 1):
        event = _sns(event)
    with pytest.raises(UserError, match="carriers"):
        opened(json.dumps(event))


def test_records_within_records_are_bounded() -> None:
    """The limit holds for a whole body, however its records are spread over lists."""
    body = json.dumps([_S3] * (RECORDS_LIMIT // 2 + 10))
    found = opened(body)
    assert len(found.created) <= RECORDS_LIMIT
    assert found.beyond > 0
    assert not parse_s3_event(body).is_whole


_NAMES = st.sampled_from(
    ["Records", "Type", "Message", "Sns", "body", "eventSource", "eventName", "detail", "detail-type", "s3"]
)
_TEXTS = st.sampled_from(
    ["Notification", "aws:sqs", "ObjectCreated:Put", "Object Created", "{", json.dumps(_S3)]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_NAMES, below, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_any_body_is_read_or_refused(value: Any) -> None:
    """Whatever carriers and events are mixed, nothing but a UserError comes of it."""
    try:
        opened(json.dumps(value))
    except UserError:
        return
