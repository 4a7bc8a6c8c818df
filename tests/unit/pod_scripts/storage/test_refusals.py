"""What S3 says when it refuses a pod's request is in the pod's error."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from slipway_pod.errors import PodError
from slipway_pod.storage.s3 import store_errors


@pytest.mark.parametrize(
    ("code", "status", "message", "kind", "remedy"),
    [
        ("AccessDenied", 403, "not authorized to perform: kms:Decrypt", "UserError", "kms:Decrypt"),
        ("KMS.DisabledException", 400, "the key is disabled", "StoreUnavailableError", "enable the key"),
        (
            "InvalidObjectState",
            403,
            "not valid for the object's storage class",
            "UserError",
            "restore the object",
        ),
        ("RequestTimeTooSkewed", 403, "the difference is too large", "UserError", "clock"),
        ("AccessDenied", 403, "Access Denied", "UserError", "service account"),
    ],
)
def test_s3s_own_message_is_told(code: str, status: int, message: str, kind: str, remedy: str) -> None:
    """With what to do about it, and who has to."""
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(PodError) as raised, store_errors("s3://b/k"):
        raise ClientError(answer, "GetObject")  # type: ignore[arg-type]
    assert raised.value.kind == kind
    assert raised.value.found == f"{code}, HTTP {status}: {message}"
    assert remedy in str(raised.value.remedy)


def test_no_signature_is_told() -> None:
    """Nor an access key."""
    said = "no: https://b/k?X-Amz-Signature=secret AKIAIOSFODNN7EXAMPLE"
    answer = {"Error": {"Code": "AccessDenied", "Message": said}}
    with pytest.raises(PodError) as raised, store_errors("s3://b/k"):
        raise ClientError(answer, "GetObject")  # type: ignore[arg-type]
    assert "secret" not in str(raised.value.found)
    assert "AKIA" not in str(raised.value.found)
