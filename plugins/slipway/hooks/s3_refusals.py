"""What S3 says when it refuses a request, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SAID_LIMIT = 500
# A signed address carries its signature in the query.
_QUERY = re.compile(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>]+", re.IGNORECASE)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b")
_KMS = "give the role `kms:Decrypt` and `kms:GenerateDataKey` on the bucket's key, and check that the key is enabled"
_CREDENTIALS = "renew the credentials: they are unknown, wrongly signed, or expired"
_REGION = "correct the region or the endpoint: the bucket is in another region or store"
_REMEDIES = {
    "RequestTimeTooSkewed": "set the machine's clock (NTP): S3 accepts requests from the last 15 minutes only",
    "RequestExpired": "set the machine's clock (NTP): S3 accepts requests from the last 15 minutes only",
    "InvalidObjectState": "the object is archived (Glacier): restore it, or copy it to STANDARD, "
    "and keep the lifecycle rule off this prefix",
    "InvalidStorageClass": "correct the storage class: this store does not have it",
    "ExpiredToken": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "NoSuchBucket": "create the bucket, or correct its name",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "SlowDown": "it is tried again; spread the requests over more prefixes",
    "QuotaExceeded": "free up space in the store, or raise its quota",
    "EntityTooLarge": "the object is larger than the store accepts",
}  # fmt: skip


def refusal(answer: Mapping[str, Any]) -> str:
    """Return the code, the HTTP status and S3's own sentence; no signature and no access key.

    :param answer: of botocore's `ClientError`.
    """
    code, message = _words(answer)
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    words = unsigned(message)
    said = "" if words in ("", code, "Forbidden", "Bad Request") else f": {words}"
    return f"{code} (HTTP {status}){said}"


def unsigned(message: str) -> str:
    """Return a message in one line without what an address is signed with, and without access keys."""
    words = _KEY_ID.sub("…", _QUERY.sub(r"\1?…", " ".join(message.split())))
    return words if len(words) <= _SAID_LIMIT else f"{words[:_SAID_LIMIT]}…"


def remedy(answer: Mapping[str, Any], otherwise: str) -> str:
    """Return what to do; `otherwise` where S3's answer says nothing in particular."""
    code, message = _words(answer)
    if code.startswith("KMS.") or "kms:" in message.lower() or "kms key" in message.lower():
        return _KMS
    if code == "AccessDenied" and "explicit deny" in message:
        return "find the policy that denies it: of the bucket, the role's boundary, the VPC endpoint or the account"
    return _REMEDIES.get(code, otherwise)


def _words(answer: Mapping[str, Any]) -> tuple[str, str]:
    error = answer.get("Error", {})
    return str(error.get("Code", "")), str(error.get("Message", ""))
