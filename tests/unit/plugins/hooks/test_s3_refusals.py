"""What S3 says when it refuses a request is told, with what to do, and without what signs it."""

from __future__ import annotations

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import ClientError, EndpointConnectionError

from slipway.hooks.s3_errors import translated
from slipway_core.errors import StoreUnavailableError

DENIED = (
    "User: arn:aws:sts::1:assumed-role/x is not authorized to perform: kms:Decrypt on resource: arn:aws:kms"
)
REFUSALS = [
    ("AccessDenied", 403, DENIED, "kms:Decrypt"),
    ("KMS.DisabledException", 400, "arn:aws:kms:eu-west-1:1:key/2 is disabled.", "is enabled"),
    ("InvalidObjectState", 403, "The operation is not valid for the object's storage class", "restore it"),
    (
        "RequestTimeTooSkewed",
        403,
        "The difference between the request time and the current time is too large",
        "clock",
    ),
    (
        "AccessDenied",
        403,
        "not authorized to perform: s3:GetObject with an explicit deny in a policy",
        "the policy",
    ),
    ("AccessDenied", 403, "Access Denied", "the connection 'aws_default'"),
    ("ExpiredToken", 400, "The provided token has expired.", "renew the credentials"),
    ("AuthorizationHeaderMalformed", 400, "the region 'us-east-1' is wrong; expecting 'eu-west-1'", "region"),
]


def refused(code: str, status: int, message: str) -> ClientError:
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetObject")  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "status", "message", "remedy"), REFUSALS)
def test_s3s_own_message_is_told_with_its_remedy(code: str, status: int, message: str, remedy: str) -> None:
    """The key, the storage class, the clock and the policy are in it, and in nothing else that S3 answers."""
    with pytest.raises(StoreUnavailableError) as raised, translated("s3://b/k", "aws_default"):
        raise refused(code, status, message)
    assert str(raised.value.found).startswith(f"{code} (HTTP {status}): ")
    assert message in str(raised.value.found)
    assert remedy in str(raised.value.remedy)


def test_the_cause_of_an_upload_that_failed_is_told() -> None:
    """boto3 hides it behind an error of its own."""
    hiding = S3UploadFailedError("Failed to upload a file")
    hiding.__cause__ = refused("AccessDenied", 403, DENIED)
    with pytest.raises(StoreUnavailableError, match=r"kms:Decrypt"), translated("s3://b/k", "aws_default"):
        raise hiding


@pytest.mark.parametrize(
    "error",
    [
        refused(
            "AccessDenied",
            403,
            "no: https://b.s3.amazonaws.com/k?X-Amz-Signature=secret AKIAIOSFODNN7EXAMPLE",
        ),
        EndpointConnectionError(endpoint_url="https://b.s3.amazonaws.com/k?X-Amz-Signature=secret"),
    ],
    ids=["refused", "no answer"],
)
def test_no_signature_and_no_access_key_is_told(error: Exception) -> None:
    """The address without its query is."""
    with pytest.raises(StoreUnavailableError) as raised, translated("s3://b/k", "aws_default"):
        raise error
    assert "https://b.s3.amazonaws.com/k?…" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "AKIA" not in str(raised.value)
