"""What the intake queue must be: told by the bucket of what has landed, and with a place for what nobody can read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.doctor.policy_documents import may_send

PREFIX, SUFFIX = "incoming/", "ready.json"
_FILES = "include/manifests/queue"
_CREATED = "s3:ObjectCreated:"


def ways_to_the_queue(notification: Mapping[str, Any], queue_arn: str) -> list[tuple[str, str, str]]:
    """Return by which ways a bucket's events of uploads can come to a queue: kind, service of AWS, source's ARN.

    :param notification: the bucket's configuration, as S3 returns it; that a topic or a rule leads to this queue is
        not seen in it.
    """
    found = [
        ("directly", "s3.amazonaws.com", "")
        for one in _configurations(notification, "QueueConfigurations")
        if one.get("QueueArn") == queue_arn and _tells_of_uploads(one)
    ]
    found += [
        ("through SNS", "sns.amazonaws.com", str(one.get("TopicArn", "")))
        for one in _configurations(notification, "TopicConfigurations")
        if _tells_of_uploads(one)
    ]
    if notification.get("EventBridgeConfiguration") is not None:
        found.append(("through EventBridge", "events.amazonaws.com", "arn:aws:events:*"))
    return found


def notification_findings(
    notification: Mapping[str, Any], attributes: Mapping[str, str], bucket: str, *, is_aws: bool
) -> Iterator[Finding]:
    """Yield whether the bucket's events come to the queue: that they are sent, and may be.

    :param attributes: the queue's, as SQS returns them.
    :param is_aws: whether policies are kept; other servers have none.
    """
    arn = attributes.get("QueueArn", "")
    put = (
        f"aws s3api put-bucket-notification-configuration --bucket {bucket} --notification-configuration "
        f"file://{_FILES}/notification.json"
    )
    ways = ways_to_the_queue(notification, arn)
    what = "notification of the bucket"
    if not ways:
        yield Finding(
            what,
            Status.FAILED,
            f"no event of {PREFIX}…{SUFFIX} is sent to {arn or 'the queue'}",
            f"s3:ObjectCreated:*, prefix {PREFIX}, suffix {SUFFIX}",
            "an upload then starts its release only when the scheduled scan finds it",
            put,
        )
        return
    yield fine(what, f"uploads are told {' and '.join(dict.fromkeys(kind for kind, _, _ in ways))}")
    for kind, service, source in dict.fromkeys(ways):
        yield _policy_finding(
            attributes.get("Policy", ""), kind, service, source or f"arn:aws:s3:::{bucket}", is_aws
        )


def _policy_finding(policy: str, kind: str, service: str, source: str, is_aws: bool) -> Finding:
    what = f"queue policy: {service}"
    try:
        is_allowed = bool(policy) and may_send(policy, service, source)
    except ValueError:
        is_allowed = False
    if is_allowed:
        return fine(what, f"it may send for {source}")
    return Finding(
        what,
        Status.FAILED if is_aws else Status.WARNING,
        "the policy does not let it send" if policy else "the queue has no policy",
        f"sqs:SendMessage for {service}, from {source}",
        f"AWS drops the events that come {kind}, and tells nobody",
        f"aws sqs set-queue-attributes --queue-url $SLIPWAY_INTAKE_QUEUE_URL --attributes file://{_FILES}/queue.json",
    )


def dead_letter_target(attributes: Mapping[str, str]) -> str:
    """Return the ARN of the queue that takes what nobody could read; "" where there is none."""
    try:
        found = json.loads(attributes.get("RedrivePolicy") or "{}")
    except ValueError:
        return ""
    return str(found.get("deadLetterTargetArn", "")) if isinstance(found, Mapping) else ""


def no_dead_letters_finding() -> Finding:
    """Return what it means that a queue has no dead-letter queue."""
    return Finding(
        "dead-letter queue",
        Status.WARNING,
        "the queue has none",
        "a RedrivePolicy",
        "a message that cannot be read comes again until it is too old, and then it is gone",
        f"aws sqs set-queue-attributes --queue-url $SLIPWAY_INTAKE_QUEUE_URL --attributes file://{_FILES}/queue.json",
    )


def dead_letters_finding(name: str, waiting: int) -> Finding:
    """Return what lies in the dead-letter queue.

    :param waiting: how many messages.
    """
    if not waiting:
        return fine("dead-letter queue", f"{name}, empty")
    return Finding(
        "dead-letter queue",
        Status.WARNING,
        f"{waiting} messages lie in {name}",
        "none",
        "each may have told of a version; the scheduled scan has found those that were whole",
        f"aws sqs receive-message --queue-url $(aws sqs get-queue-url --queue-name {name} --output text)",
    )


def _configurations(notification: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    found = notification.get(key) or []
    return [one for one in found if isinstance(one, Mapping)]


def _tells_of_uploads(configuration: Mapping[str, Any]) -> bool:
    """Return whether an object `incoming/MODEL/VERSION/ready.json` makes an event."""
    events = configuration.get("Events") or []
    rules = ((configuration.get("Filter") or {}).get("Key") or {}).get("FilterRules") or []
    limits = {str(rule.get("Name", "")).lower(): str(rule.get("Value", "")) for rule in rules}
    key = f"{PREFIX}digits/1/{SUFFIX}"
    return (
        any(str(event).startswith(_CREATED) for event in events)
        and key.startswith(limits.get("prefix", ""))
        and key.endswith(limits.get("suffix", ""))
    )
