"""The release file's `publish`: where a key may come from, and what S3 can do."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from slipway_core.spec.release_file import Publishing


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"signing": {"connection": "signing"}},
        {"signing": {"private_key_file": "/etc/slipway/key.pem"}},
        {"signing": {"public_key_file": "/etc/slipway/public.pem"}},
        {"encryption": {"algorithm": "AES256"}},
        {"encryption": {"kms_key_id": "alias/models", "bucket_key": True}},
        {"tags": {"team": "vision", "cost centre": "4711"}, "tag_objects": False},
    ],
)
def test_what_can_be_said(given: dict[str, Any]) -> None:
    """Each of these is accepted as it stands."""
    assert Publishing.model_validate(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"signing": {}}, "either `connection`"),
        ({"signing": {"connection": "a", "private_key_file": "/k"}}, "either `connection`"),
        ({"signing": {"private_key_file": "key.pem"}}, "absolute path"),
        ({"signing": {"private_key_file": "/etc/../key.pem"}}, "absolute path"),
        ({"encryption": {"algorithm": "AES256", "kms_key_id": "k"}}, "need `algorithm: aws:kms`"),
        ({"signing": {"connection": "key", "verify_keys": ("old.pem",)}}, "must be an absolute path"),
        ({"tags": {"team": "a&b"}}, "must be letters"),
        ({"tags": {str(n): "" for n in range(6)}}, "at most 5"),
        ({"tags": {"aws:team": "vision"}}, "must not begin with aws: or slipway:"),
        ({"tags": {"slipway:version": "2"}}, "must not begin with aws: or slipway:"),
    ],
)
def test_what_cannot_be_said(given: dict[str, Any], words: str) -> None:
    """Each of these is refused with words that say what is meant."""
    with pytest.raises(ValidationError, match=words):
        Publishing.model_validate(given)
