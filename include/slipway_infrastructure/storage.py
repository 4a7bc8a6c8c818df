"""The bucket of models: versions, lifecycle, encryption, who may write what, and the queue that it notifies."""

from __future__ import annotations

from typing import Any

from slipway_infrastructure.intake_queue import LANDED, NOTIFICATION
from slipway_infrastructure.manifests import policy, read, rendered
from slipway_infrastructure.template import (
    BUCKET_NAME,
    Json,
    attribute,
    choice,
    equals,
    number,
    one_of,
    only_if,
    output,
    ref,
    resource,
    sub,
    template,
)

OBJECTS = "arn:aws:s3:::BUCKET/*"
TLS_ONLY = {
    "Sid": "RequestsAreEncrypted",
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": ["arn:aws:s3:::BUCKET", OBJECTS],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def _rules() -> list[Json]:
    """Return the rules of lifecycle.json in CloudFormation's form, and the one for uploads that nobody completes."""
    own = [
        {
            "Id": one["ID"],
            "Prefix": one["Filter"]["Prefix"],
            **{key: value for key, value in one.items() if key not in ("ID", "Filter")},
        }
        for one in read("bucket", "lifecycle")["Rules"]
    ]
    abandoned = {
        "Id": "AbandonedUploadsAreRemoved",
        "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ref("AbandonedUploadDays")},
    }
    return [*own, abandoned]


def _notified(target: str, value: Any) -> list[Json]:
    """Return the notifications of notification.json for a target of CloudFormation's own name."""
    return [
        {
            "Event": event,
            target: value,
            "Filter": {"S3Key": {"Rules": one["Filter"]["Key"]["FilterRules"]}},
        }
        for one in read("queue", "notification")["QueueConfigurations"]
        for event in one["Events"]
    ]


def _notification() -> Json:
    (direct,) = read("queue", "notification")["QueueConfigurations"]
    topic = sub(f"arn:${{AWS::Partition}}:sns:${{AWS::Region}}:${{AWS::AccountId}}:{LANDED}")
    return choice(
        "ByEventBridge",
        {"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
        choice(
            "ByTopic",
            {"TopicConfigurations": _notified("Topic", topic)},
            {"QueueConfigurations": _notified("Queue", rendered(direct["QueueArn"]))},
        ),
    )


def _bucket() -> Json:
    encryption = choice(
        "WithKey",
        {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": attribute("Arn", "Key")},
        {"SSEAlgorithm": "AES256"},
    )
    return resource(
        "AWS::S3::Bucket",
        {
            "BucketName": ref("BucketName"),
            "VersioningConfiguration": {"Status": "Enabled"},
            "LifecycleConfiguration": {"Rules": _rules()},
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {
                        "ServerSideEncryptionByDefault": encryption,
                        "BucketKeyEnabled": choice("WithKey", True, False),
                    }
                ]
            },
            # No default retention: it would keep every object of work/ and staging/ too.
            "ObjectLockEnabled": only_if("WithObjectLock", True),
            "NotificationConfiguration": _notification(),
        },
        DeletionPolicy="Retain",
        UpdateReplacePolicy="Retain",
    )


def _key() -> Json:
    return resource(
        "AWS::KMS::Key",
        {
            "Description": "Objects of Slipway's bucket",
            "EnableKeyRotation": True,
            "KeyPolicy": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Sid": "RolesOfTheAccountUseItByTheirOwnPolicies",
                        "Effect": "Allow",
                        "Principal": {"AWS": sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root")},
                        "Action": "kms:*",
                        "Resource": "*",
                    }
                ],
            },
        },
        Condition="WithKey",
        DeletionPolicy="Retain",
        UpdateReplacePolicy="Retain",
    )


def storage() -> Json:
    """Return the template of the bucket; the intake queue's stack must exist."""
    denials = policy("bucket", "policy")
    denials["Statement"] = [*denials["Statement"], rendered(TLS_ONLY)]
    return template(
        "Slipway: the bucket of models, with its policy, versions, lifecycle, encryption and notification",
        {
            "Key": _key(),
            "Bucket": _bucket(),
            "BucketPolicy": resource(
                "AWS::S3::BucketPolicy", {"Bucket": ref("Bucket"), "PolicyDocument": denials}
            ),
        },
        parameters={
            "BucketName": BUCKET_NAME,
            "Notification": NOTIFICATION,
            "Encryption": one_of("KMS: a key of this stack. S3: keys that S3 manages.", ("S3", "KMS"), "S3"),
            "ObjectLock": one_of(
                "Whether retention can be set on objects. It can't be turned off later.",
                ("false", "true"),
                "false",
            ),
            "AbandonedUploadDays": number(
                "After how many days parts of an upload that nobody has completed are removed.", 7, 1
            ),
        },
        conditions={
            "WithKey": equals("Encryption", "KMS"),
            "WithObjectLock": equals("ObjectLock", "true"),
            "ByTopic": equals("Notification", "Topic"),
            "ByEventBridge": equals("Notification", "EventBridge"),
        },
        outputs={
            "BucketArn": output("The bucket.", attribute("Arn", "Bucket")),
            "KeyArn": output("The parameter KeyArn of the roles' stack.", attribute("Arn", "Key"), "WithKey"),
        },
    )
