"""The intake queue: the queue, its dead letters, and who may write to it."""

from __future__ import annotations

import json
from typing import Any

from slipway_infrastructure.manifests import policy, read, rendered
from slipway_infrastructure.template import (
    BUCKET_NAME,
    Json,
    attribute,
    differs,
    equals,
    one_of,
    only_if,
    output,
    ref,
    resource,
    sub,
    template,
    text,
)

QUEUE = "slipway-intake"
DEAD_LETTERS = "slipway-intake-dead-letters"
LANDED = "slipway-landed"
NOTIFICATION = one_of(
    "How the bucket notifies the queue of uploads. Give the same value to the stacks of the queue and of the bucket.",
    ("Queue", "Topic", "EventBridge"),
    "Queue",
)
_WHOLE_NUMBERS = ("VisibilityTimeout", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds")


def _attributes(name: str) -> Json:
    """Return a queue's attributes in CloudFormation's form: SQS's API has every value as a text."""
    found: Json = {}
    for key, value in read("queue", name).items():
        parsed: Any = int(value) if key in _WHOLE_NUMBERS else json.loads(value)
        if key == "RedrivePolicy":
            parsed["maxReceiveCount"] = int(parsed["maxReceiveCount"])
        found[key] = rendered(parsed)
    return found


def _topic_policy() -> Json:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "TheBucketPublishes",
                "Effect": "Allow",
                "Principal": {"Service": "s3.amazonaws.com"},
                "Action": "sns:Publish",
                "Resource": ref("LandedTopic"),
                "Condition": {
                    "ArnEquals": {"aws:SourceArn": sub("arn:${AWS::Partition}:s3:::${BucketName}")},
                    "StringEquals": {"aws:SourceAccount": ref("AWS::AccountId")},
                },
            }
        ],
    }


def intake_queue() -> Json:
    """Return the template of the intake queue; deploy it before the bucket, which S3 lets notify only what is there."""
    attributes = _attributes("queue")
    queue_policy = attributes.pop("Policy")
    own = {"SqsManagedSseEnabled": True}
    # A message may be lost with its queue: the scheduled scan finds the upload.
    removed = {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}
    resources = {
        "DeadLetters": resource(
            "AWS::SQS::Queue", {"QueueName": DEAD_LETTERS, **_attributes("dead-letters"), **own}, **removed
        ),
        "Queue": resource(
            "AWS::SQS::Queue",
            {"QueueName": QUEUE, **attributes, **own},
            DependsOn="DeadLetters",
            **removed,
        ),
        "QueuePolicy": resource(
            "AWS::SQS::QueuePolicy", {"Queues": [ref("Queue")], "PolicyDocument": queue_policy}
        ),
        "LandedTopic": resource("AWS::SNS::Topic", {"TopicName": LANDED}, Condition="ByTopic"),
        "LandedTopicPolicy": resource(
            "AWS::SNS::TopicPolicy",
            {"Topics": [ref("LandedTopic")], "PolicyDocument": _topic_policy()},
            Condition="ByTopic",
        ),
        "LandedSubscription": resource(
            "AWS::SNS::Subscription",
            {
                "TopicArn": ref("LandedTopic"),
                "Protocol": "sqs",
                "Endpoint": attribute("Arn", "Queue"),
                "RawMessageDelivery": ref("RawDelivery"),
            },
            Condition="ByTopic",
            DependsOn="QueuePolicy",
        ),
        "LandedRule": resource(
            "AWS::Events::Rule",
            {
                "Name": LANDED,
                "EventPattern": policy("queue", "rule"),
                "Targets": [{"Id": "Queue", "Arn": attribute("Arn", "Queue")}],
            },
            Condition="ByEventBridge",
            DependsOn="QueuePolicy",
        ),
        "DeadLettersAlarm": resource(
            "AWS::CloudWatch::Alarm",
            {
                "AlarmName": DEAD_LETTERS,
                "AlarmDescription": "Messages of the intake queue that were received five times and never deleted.",
                "Namespace": "AWS/SQS",
                "MetricName": "ApproximateNumberOfMessagesVisible",
                "Dimensions": [{"Name": "QueueName", "Value": attribute("QueueName", "DeadLetters")}],
                "Statistic": "Maximum",
                "Period": 300,
                "EvaluationPeriods": 1,
                "Threshold": 0,
                "ComparisonOperator": "GreaterThanThreshold",
                # SQS sends no metrics of a queue that nobody has used for hours.
                "TreatMissingData": "notBreaching",
                "AlarmActions": only_if("WithAlarmTopic", [ref("AlarmTopicArn")]),
            },
        ),
    }
    return template(
        "Slipway: the intake queue, its dead letters, and who may write to it",
        resources,
        parameters={
            "BucketName": BUCKET_NAME,
            "Notification": NOTIFICATION,
            "RawDelivery": one_of(
                "With Notification=Topic: whether SNS adds no envelope to the message of S3. Slipway reads both.",
                ("true", "false"),
                "true",
            ),
            "AlarmTopicArn": text(
                "An SNS topic for the alarm of dead letters. Empty: the alarm notifies nobody.", ""
            ),
        },
        conditions={
            "ByTopic": equals("Notification", "Topic"),
            "ByEventBridge": equals("Notification", "EventBridge"),
            "WithAlarmTopic": differs("AlarmTopicArn", ""),
        },
        outputs={
            "QueueUrl": output("The value of SLIPWAY_INTAKE_QUEUE_URL.", ref("Queue")),
            "QueueArn": output("The intake queue.", attribute("Arn", "Queue")),
        },
    )
