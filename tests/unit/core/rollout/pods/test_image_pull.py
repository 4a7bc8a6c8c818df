"""Whether an image that could not be pulled can come yet, by registries' and kubelets' own messages."""

from __future__ import annotations

import pytest

from slipway_core.rollout.pods.image_pull import Prospect, prospect

MESSAGES: dict[str, list[str]] = {
    "may_come": [
        "failed to copy: httpReadSeeker: read tcp 10.0.3.7:41012->52.1.2.3:443: read: connection reset by peer",
        'failed to do request: Head "https://r.example.org/v2/": dial tcp: lookup r.example.org: no such host',
        "dial tcp: lookup registry on 10.96.0.10:53: server misbehaving",
        "unexpected status from HEAD request: 500 Internal Server Error",
        "pinging container registry r: received unexpected HTTP status: 502 Bad Gateway",
        "failed to fetch anonymous token: unexpected status from GET request: 503 Service Unavailable",
        "429 Too Many Requests - Server message: toomanyrequests: Rate exceeded",
        "pull QPS exceeded",
        "dial tcp 52.1.2.3:443: i/o timeout",
        "net/http: TLS handshake timeout",
        "short read: expected 10 bytes but got 4: unexpected EOF",
        "failed to extract layer: write /var/lib/containerd: no space left on device",
        'Back-off pulling image "registry.example.org/not-found/manifest-unknown:404"',
        "",
    ],
    "not_permitted": [
        "pull access denied, repository does not exist or may require authorization: authorization failed: no basic "
        "auth credentials",
        "denied: Your authorization token has expired. Reauthenticate",
        "unexpected status from HEAD request to https://x/v2/y/manifests/1: 401 Unauthorized",
        "unexpected status from HEAD request to https://x/v2/y/manifests/1: 403 Forbidden",
    ],
    "never": [
        "rpc error: code = NotFound desc = failed to pull and unpack image: not found",
        'failed to resolve reference "a.example/timeout/x:1": a.example/timeout/x:1: not found',
        "reading manifest 9.9 in quay.io/x/y: manifest unknown",
        "name unknown: The repository with name 'x' does not exist in the registry with id '1'",
        "no match for platform in manifest: not found",
        "invalid reference format: repository name must be lowercase",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "message"),
    [(kind, message) for kind, messages in MESSAGES.items() for message in messages],
)
def test_only_what_is_not_there_never_comes(expected: Prospect, message: str) -> None:
    """What a network or a registry did not do now it may do next time; the words in an image's name are none."""
    assert prospect("ErrImagePull", message) == expected


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_a_name_that_can_be_none_and_a_pull_that_is_forbidden_never_come(reason: str) -> None:
    """Whatever the message says."""
    assert prospect(reason, "temporarily unavailable") == "never"
