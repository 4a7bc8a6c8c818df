"""What S3 says when it refuses a pod's request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SAID_LIMIT = 500
# A signed address carries its signature in the query; an access key is nobody's to read in a record.
_HIDDEN = re.compile(r"\?\S+|\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b")
_ARCHIVED, _SKEWED = "InvalidObjectState", "RequestTimeTooSkewed"


def refusal(answer: Mapping[str, Any], code: str) -> str:
    """Return the code, the HTTP status and S3's own sentence.

    :param answer: of botocore's `ClientError`; empty if S3 gave none.
    :param code: its error code, or what took its place.
    """
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    words = _HIDDEN.sub("…", " ".join(_message(answer).split()))[:_SAID_LIMIT]
    said = "" if words in ("", code, "Forbidden", "Not Found") else f": {words}"
    return (f"{code}, HTTP {status}" if status else code) + said


def remedy_of(answer: Mapping[str, Any], code: str) -> str | None:
    """Return what to do where S3's answer tells it; None if it says nothing in particular."""
    if code == _ARCHIVED:
        return "restore the object from its archive tier (Glacier), or copy it to STANDARD"
    if code == _SKEWED:
        return "set the clock of the pod's node (NTP)"
    if code.startswith("KMS.") or "kms" in _message(answer).lower():
        return "give the pod's role `kms:Decrypt` and `kms:GenerateDataKey` on the bucket's key, and enable the key"
    return None


def _message(answer: Mapping[str, Any]) -> str:
    return str(answer.get("Error", {}).get("Message", ""))
