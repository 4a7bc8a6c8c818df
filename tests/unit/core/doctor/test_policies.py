"""Policies of the bucket and of the queue, compared with those of this project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway_core.doctor.bucket import lifecycle_findings, policy_findings, versioning_finding
from slipway_core.doctor.intake_queue import dead_letter_target, notification_findings
from slipway_core.doctor.line import Status

MANIFESTS = Path(__file__).resolve().parents[4] / "include" / "manifests"
POLICY = (MANIFESTS / "bucket" / "policy.json").read_text(encoding="utf-8")
ARN = "arn:aws:sqs:eu-central-1:123456789012:slipway-intake"


def named(text: str) -> str:
    """Return a manifest with the names of one installation."""
    return (
        text.replace("BUCKET", "models").replace("ACCOUNT", "123456789012").replace("REGION", "eu-central-1")
    )


def changed(**parts: Any) -> str:
    """Return the installation's policy, with the first statement changed."""
    policy = json.loads(named(POLICY))
    policy["Statement"][0] |= parts
    return json.dumps(policy)


def without_the_last() -> str:
    """Return the installation's policy, less its last statement."""
    policy = json.loads(named(POLICY))
    del policy["Statement"][-1]
    return json.dumps(policy)


@pytest.mark.parametrize(
    ("policy", "status", "found"),
    [
        (named(POLICY), Status.OK, "every statement"),
        (changed(Condition={}), Status.OK, "every statement"),
        (None, Status.WARNING, "has none"),
        (without_the_last(), Status.WARNING, "lacks TombstonesFreezesAndTheAuditStay"),
        (changed(Effect="Allow"), Status.WARNING, "OthersOnlyUpload"),
        ("no policy", Status.FAILED, ""),
    ],
    ids=["whole", "roles", "none", "lacking", "other", "unreadable"],
)
def test_the_policy_is_compared_by_its_statements(policy: str | None, status: Status, found: str) -> None:
    """Account, bucket and roles may have any name."""
    (finding,) = policy_findings(policy, POLICY, "models")
    assert finding.status is status
    assert found in finding.found


@pytest.mark.parametrize(
    ("said", "status"), [("Enabled", Status.OK), ("Suspended", Status.WARNING), ("", Status.WARNING)]
)
def test_versioning_is_on_or_a_warning(said: str, status: Status) -> None:
    """Publishing works without, at a cost."""
    assert versioning_finding(said, "models").status is status


def test_the_manifest_of_the_lifecycle_is_well() -> None:
    """Uploads that nobody ends, and each prefix that is written over, have their rule."""
    rules = json.loads((MANIFESTS / "bucket" / "lifecycle.json").read_text(encoding="utf-8"))["Rules"]
    found = list(lifecycle_findings(rules, "models", is_versioned=True))
    assert [one.status for one in found] == [Status.OK] * 3


def test_each_rule_that_is_lacking_is_named() -> None:
    """A rule that is switched off is none."""
    off = {"Status": "Disabled", "AbortIncompleteMultipartUpload": {}, "NoncurrentVersionExpiration": {}}
    found = list(lifecycle_findings([off], "models", is_versioned=True))
    assert [one.status for one in found] == [Status.WARNING] * 3


def queue(**attributes: str) -> dict[str, str]:
    """Return the queue's attributes as the manifest makes them."""
    made = json.loads(named((MANIFESTS / "queue" / "queue.json").read_text(encoding="utf-8")))
    return {"QueueArn": ARN, **made, **attributes}


def notification() -> dict[str, Any]:
    """Return the bucket's notification as the manifest makes it."""
    made: dict[str, Any] = json.loads(
        named((MANIFESTS / "queue" / "notification.json").read_text(encoding="utf-8"))
    )
    return made


def test_the_manifests_of_the_queue_are_well() -> None:
    """The bucket tells the queue, and may."""
    found = list(notification_findings(notification(), queue(), "models", is_aws=True))
    assert [one.status for one in found] == [Status.OK, Status.OK]
    assert dead_letter_target(queue()).endswith(":slipway-intake-dead-letters")


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        ({"Policy": ""}, Status.FAILED),
        ({"Policy": queue()["Policy"].replace(":::models", ":::other")}, Status.FAILED),
        ({"Policy": queue()["Policy"].replace("Allow", "Deny")}, Status.FAILED),
        ({"Policy": "{"}, Status.FAILED),
    ],
    ids=["none", "other bucket", "deny", "unreadable"],
)
def test_a_bucket_that_may_not_send_is_found(attributes: dict[str, str], status: Status) -> None:
    """AWS would drop its events, and tell nobody."""
    found = list(notification_findings(notification(), queue(**attributes), "models", is_aws=True))
    assert found[-1].status is status


@pytest.mark.parametrize(
    "changes",
    [
        {"QueueArn": "arn:aws:sqs:eu-central-1:123456789012:other"},
        {"Events": ["s3:ObjectRemoved:*"]},
        {"Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "models/"}]}}},
    ],
    ids=["queue", "event", "prefix"],
)
def test_a_notification_that_tells_of_no_upload_is_none(changes: dict[str, Any]) -> None:
    """It is there, and leads elsewhere."""
    told = notification()
    told["QueueConfigurations"][0] |= changes
    (found,) = notification_findings(told, queue(), "models", is_aws=True)
    assert found.status is Status.FAILED


@pytest.mark.parametrize(
    ("told", "service"),
    [
        (
            {"TopicConfigurations": [{"TopicArn": "arn:aws:sns:eu-central-1:123456789012:slipway-landed",
                                      "Events": ["s3:ObjectCreated:Put"]}]},
            "sns.amazonaws.com",
        ),
        ({"EventBridgeConfiguration": {}}, "events.amazonaws.com"),
    ],
    ids=["topic", "rule"],
)  # fmt: skip
def test_other_ways_to_the_queue_count(told: dict[str, Any], service: str) -> None:
    """Through a topic or a rule, for each of which the queue's policy has a statement."""
    found = list(notification_findings(told, queue(), "models", is_aws=True))
    assert [one.status for one in found] == [Status.OK, Status.OK]
    assert service in found[1].what
