"""Whether an image that could not be pulled can come yet: by the message of the registry, as the kubelet hands it on.

A kubelet pulls again by itself, with pauses that grow to five minutes. What the registry or the network did not do this
time it may do the next: an answer that was cut off, a name server, a 429 or 500, a login whose token has expired (ECR's
live for twelve hours, and the kubelet's credential provider renews them). Only an image that is not there, or a name
that can be none, does not come by waiting.

Registries that hide what exists answer "does not exist or may require authorization" to both; that is waited for.
"""

from __future__ import annotations

import re
from typing import Literal

Prospect = Literal["may_come", "not_permitted", "never"]

# The kubelet's reasons for a container whose image is not on the node.
PULL_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_NEVER_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull", "SignatureValidationFailed"})
# Names of images and addresses are no words of the registry: an image may be called `not-found`.
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|\b[\w.-]+(?::\d+)?(?:/[\w.@:-]+)+")
_PASSES = re.compile(
    r"no such host|server misbehaving|name resolution|name or service not known|lookup .* on |i/o timeout|time.?out"
    r"|timed out|deadline exceeded|reset by peer|broken pipe|connection (?:refused|reset|closed)|unreachable|no route"
    r"|unexpected eof|\beof\b|too ?many ?requests|rate limit|rate exceeded|throttl|qps exceeded|\b429\b|\b50[0-9]\b"
    r"|internal server error|bad gateway|unavailable|temporar|try again|cancell?ed|no space left|tls handshake",
    re.IGNORECASE,
)
_NOT_PERMITTED = re.compile(
    r"unauthori[sz]ed|authori[sz]ation|authentication|denied|forbidden|credential|token|expired|\b40[13]\b|login",
    re.IGNORECASE,
)
_NEVER = re.compile(
    r"code = notfound|not found|manifest[ _]unknown|name[ _]unknown|\bno (?:such )?(?:image|manifest)\b"
    r"|unknown (?:manifest|tag)"
    r"|does not exist|\b404\b|invalid reference|could ?n.?t parse|invalid image name|must be lowercase"
    r"|no match(?:ing manifest)?(?: for platform)?\b|unsupported (?:media|manifest)|cannot be used on this platform",
    re.IGNORECASE,
)


def prospect(reason: str, message: str) -> Prospect:
    """Return whether an image may come by waiting.

    `not_permitted`: the registry does not give it to this node; a login that is renewed, or a person, can change that.

    :param reason: the container's, one of `PULL_REASONS`.
    :param message: the kubelet's, with the registry's words in it or without; empty if it gives none.
    """
    if reason in _NEVER_REASONS:
        return "never"
    words = _QUOTED.sub(" ", message)
    if _PASSES.search(words):
        return "may_come"
    if _NOT_PERMITTED.search(words):
        return "not_permitted"
    return "never" if _NEVER.search(words) else "may_come"
