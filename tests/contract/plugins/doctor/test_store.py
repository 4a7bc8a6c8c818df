"""The bucket and its queue, examined at moto's server: well, and each line made to fail once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from slipway.doctor.examination import chosen_examinations
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation, Permission
from slipway_core.doctor.line import Line, Status
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.store.connections import CREDENTIALS, aws_connection

MANIFESTS = Path(__file__).resolve().parents[4] / "include" / "manifests"

Client = Callable[[str], Any]


@pytest.fixture
def client(s3_endpoint: str) -> Client:
    """Return a client of a service of moto's."""

    def make(service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=s3_endpoint,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["login"],
            aws_secret_access_key=CREDENTIALS["password"],
        )

    return make


def manifest(name: str, bucket: str) -> str:
    """Return a manifest with the names that moto has."""
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    text = text.replace("BUCKET", bucket).replace("ACCOUNT", "123456789012").replace("REGION", "us-east-1")
    return text.replace("slipway-intake", f"{bucket}-intake")


@pytest.fixture
def installation(bucket: str, connections: None, client: Client, tmp_path: Path) -> Installation:
    """A bucket and a queue as the manifests make them."""
    s3, sqs = client("s3"), client("sqs")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    lifecycle = json.loads(manifest("bucket/lifecycle.json", bucket))
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=lifecycle)
    s3.put_bucket_policy(Bucket=bucket, Policy=manifest("bucket/policy.json", bucket))
    sqs.create_queue(QueueName=f"{bucket}-intake-dead-letters")
    attributes = json.loads(manifest("queue/queue.json", bucket))
    url = sqs.create_queue(QueueName=f"{bucket}-intake", Attributes=attributes)["QueueUrl"]
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration=json.loads(manifest("queue/notification.json", bucket))
    )
    return Installation(bucket, tmp_path, url)


def examined(installation: Installation, *names: str) -> dict[str, Line]:
    """Return the lines of some examinations by what they are about."""
    return {line.what: line for line in examine(installation, chosen_examinations(names)).lines}


def statuses(lines: dict[str, Line]) -> dict[str, Status]:
    """Return the status of each line."""
    return {what: line.status for what, line in lines.items()}


def test_a_bucket_and_a_queue_as_the_manifests_make_them_are_well(installation: Installation) -> None:
    """Every line is ok, and the tests of the store leave nothing behind."""
    installation.permitted = frozenset({Permission.WRITE})
    found = examined(installation, "bucket", "conditional_writes", "intake_queue")
    assert {what: line for what, line in found.items() if line.status is not Status.OK} == {}
    assert {"versioning", "policy", "dead-letter queue", "notification of the bucket"} <= found.keys()


@pytest.mark.parametrize(
    ("undo", "what"),
    [
        (lambda s3, bucket: s3.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Suspended"}), "versioning"),
        (lambda s3, bucket: s3.delete_bucket_lifecycle(Bucket=bucket), "lifecycle: multipart uploads"),
        (lambda s3, bucket: s3.delete_bucket_lifecycle(Bucket=bucket), "lifecycle: live/"),
        (lambda s3, bucket: s3.delete_bucket_policy(Bucket=bucket), "policy"),
    ],
    ids=["versioning", "uploads", "lifecycle", "policy"],
)  # fmt: skip
def test_each_setting_of_the_bucket_that_is_lacking_is_found(
    installation: Installation, client: Client, undo: Callable[[Any, str], Any], what: str
) -> None:
    """With the command that makes it."""
    undo(client("s3"), installation.bucket)
    line = examined(installation, "bucket")[what]
    assert line.status is Status.WARNING
    assert line.remedy.startswith("aws s3api put-bucket-")
    assert installation.bucket in line.remedy


def test_a_bucket_that_is_not_there_has_failed(installation: Installation) -> None:
    """Nothing else can be said of it."""
    installation.bucket = "nobodys-bucket"
    (line,) = examined(installation, "bucket").values()
    assert line.status is not Status.OK


@pytest.mark.parametrize(
    ("attribute", "what", "status"),
    [
        ("Policy", "queue policy: s3.amazonaws.com", Status.WARNING),
        ("RedrivePolicy", "dead-letter queue", Status.WARNING),
    ],
    ids=["policy", "dead letters"],
)
def test_each_attribute_of_the_queue_that_is_lacking_is_found(
    installation: Installation, client: Client, attribute: str, what: str, status: Status
) -> None:
    """moto keeps no policies, so that one is a warning there, and a failure on AWS."""
    sqs = client("sqs")
    plain = sqs.create_queue(
        QueueName=f"{installation.bucket}-plain",
        Attributes={} if attribute == "RedrivePolicy" else {"VisibilityTimeout": "60"},
    )["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=plain, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    told = json.loads(manifest("queue/notification.json", installation.bucket))
    told["QueueConfigurations"][0]["QueueArn"] = arn
    client("s3").put_bucket_notification_configuration(
        Bucket=installation.bucket, NotificationConfiguration=told
    )
    installation.queue_url = plain
    assert statuses(examined(installation, "intake_queue"))[what] is status


def test_a_bucket_that_tells_nobody_is_found(installation: Installation, client: Client) -> None:
    """Its uploads would start nothing."""
    client("s3").put_bucket_notification_configuration(
        Bucket=installation.bucket, NotificationConfiguration={}
    )
    assert statuses(examined(installation, "intake_queue"))["notification of the bucket"] is Status.FAILED


def test_dead_letters_are_counted(installation: Installation, client: Client) -> None:
    """Each may have told of a version."""
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=f"{installation.bucket}-intake-dead-letters")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="?")
    line = examined(installation, "intake_queue")["dead-letter queue"]
    assert (line.status, "1 messages" in line.found) == (Status.WARNING, True)


def test_a_queue_that_is_not_there_has_failed(installation: Installation) -> None:
    """So has one that is not configured."""
    installation.queue_url += "-other"
    assert statuses(examined(installation, "intake_queue")) == {"intake_queue": Status.FAILED}
    installation.queue_url = ""
    assert statuses(examined(installation, "intake_queue")) == {"queue": Status.FAILED}


def test_a_store_that_takes_conditions_and_does_not_keep_them_has_failed(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a proxy does that drops the header."""
    from slipway.hooks.s3_guarantees import _Asking

    put = _Asking._put

    def dropping(self: _Asking, key: str, body: bytes, **more: str) -> str | None:
        more.pop("IfNoneMatch", None)
        return put(self, key, body, **more)

    monkeypatch.setattr(_Asking, "_put", dropping)
    installation.permitted = frozenset({Permission.WRITE})
    line = examined(installation, "conditional_writes")["PutObject with If-None-Match: * over an object"]
    assert line.status is Status.FAILED


def test_a_server_that_does_not_answer_leaves_the_bucket_unknown(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is never ok."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(f"http://{LOOPBACK}:{free_port()}"))
    found = statuses(examined(installation, "bucket", "intake_queue"))
    assert set(found.values()) == {Status.UNKNOWN}


def test_an_upload_of_its_own_comes_round(installation: Installation) -> None:
    """By the bucket's notification; the object is gone afterwards."""
    installation.permitted = frozenset({Permission.EVENT})
    line = examined(installation, "upload_event")["event of an upload"]
    assert line.status is Status.OK
    assert installation.store().entries("incoming/") == []
    taken = examined(installation, "intake_queue")[f"queue {installation.bucket}-intake"]
    assert taken.found.startswith("0 ") or taken.found.startswith("1 ")


def test_an_event_that_does_not_come_is_unknown(
    installation: Installation, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may have taken it: model_intake does."""
    monkeypatch.setattr("slipway.doctor.examinations.upload_event.COMES_WITHIN_S", 0.5)
    client("s3").put_bucket_notification_configuration(
        Bucket=installation.bucket, NotificationConfiguration={}
    )
    installation.permitted = frozenset({Permission.EVENT})
    line = examined(installation, "upload_event")["event of an upload"]
    assert (line.status, "model_intake" in line.remedy) == (Status.UNKNOWN, True)


@pytest.mark.parametrize(
    ("method", "what", "action"),
    [
        ("get_bucket_versioning", "versioning", "s3:GetBucketVersioning"),
        ("get_bucket_lifecycle_configuration", "lifecycle", "s3:GetLifecycleConfiguration"),
        ("get_bucket_policy", "policy", "s3:GetBucketPolicy"),
    ],
)
def test_a_setting_that_the_role_may_not_read_is_unknown(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, method: str, what: str, action: str
) -> None:
    """The line names the right, and the other settings are looked at."""
    store = installation.store()

    def refuse(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, method)

    monkeypatch.setattr(store.client, method, refuse)
    monkeypatch.setattr(installation, "store", lambda: store)
    found = examined(installation, "bucket")
    assert found[what].status is Status.UNKNOWN
    assert action in found[what].remedy
    assert sum(line.status is Status.UNKNOWN for line in found.values()) == 1


def test_the_clock_of_the_store_is_compared_and_an_airflow_that_is_away_is_unknown(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto runs here, so it has our clock."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://{LOOPBACK}:{free_port()}")
    found = statuses(examined(installation, "clocks"))
    assert found["clock of the object store"] is Status.OK
    assert found["clock of Airflow"] is Status.UNKNOWN
