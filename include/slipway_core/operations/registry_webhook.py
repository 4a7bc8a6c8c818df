"""MLflow's webhooks: whether a request is one, by its signature; and about which registered model it is.

MLflow signs as Standard Webhooks do: HMAC-SHA256 of `DELIVERY-ID.TIMESTAMP.BODY` with the secret, in base64, behind
`v1,`. A delivery that it sends again carries the same id and the same time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from slipway_core.documents.json_source import parse_json
from slipway_core.errors import UserError, WebhookRefusedError
from slipway_core.spec.registry import LIVE_ALIAS, PREVIOUS_ALIAS

SIGNATURE_HEADER = "x-mlflow-signature"
TIMESTAMP_HEADER = "x-mlflow-timestamp"
DELIVERY_HEADER = "x-mlflow-delivery-id"

BODY_LIMIT_BYTES = 256 * 1024
FRESH_FOR_S = 300
"""A delivery that was signed longer ago, or so far in the future, is not taken."""

_DELIVERY_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURES_LIMIT = 5
_SECRET_MINIMUM = 16
_NAME_LIMIT = 250


@dataclass(frozen=True)
class Delivery:
    """A webhook that was proved: its id, and the registered model of which an alias was set.

    None in its place: the webhook tells of something else, or of an alias that Slipway sets itself.
    """

    delivery_id: str
    registered_model: str | None


def read_delivery(headers: Mapping[str, str], body: bytes, secret: str, now_s: float) -> Delivery:
    """Return what a request says, once its signature is proved; nothing of its body is read before.

    :param headers: by lower-case names.
    :param secret: what MLflow signs with; an empty or short one proves nothing.
    :param now_s: seconds since 1970.
    :raises WebhookRefusedError: it is not signed with the secret, or was signed too long ago.
    """
    if len(secret) < _SECRET_MINIMUM:
        raise WebhookRefusedError("no secret, or one that is too short", expected="16 characters")
    delivery_id, timestamp = headers.get(DELIVERY_HEADER, ""), headers.get(TIMESTAMP_HEADER, "")
    if not _DELIVERY_ID.fullmatch(delivery_id) or not _TIMESTAMP.fullmatch(timestamp):
        raise WebhookRefusedError("the request has no delivery id or no time")
    if not _is_signed(
        headers.get(SIGNATURE_HEADER, ""), f"{delivery_id}.{timestamp}.".encode() + body, secret
    ):
        raise WebhookRefusedError("the request is not signed with the secret")
    if abs(now_s - int(timestamp)) > FRESH_FOR_S:
        raise WebhookRefusedError("the request was signed too long ago, or the clocks differ")
    return Delivery(delivery_id, _registered_model(body))


def _is_signed(header: str, content: bytes, secret: str) -> bool:
    expected = base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha256).digest())
    given = header.split(" ")[:_SIGNATURES_LIMIT]  # several, while a secret is changed
    right = [hmac.compare_digest(one.encode("utf-8", "replace"), b"v1," + expected) for one in given]
    return any(right)


def _registered_model(body: bytes) -> str | None:
    """Return the name in a body that was signed; None if it holds none."""
    try:
        payload = parse_json(body, "the webhook")
    except UserError:
        return None
    if not isinstance(payload, Mapping) or payload.get("entity") != "model_version_alias":
        return None
    data = payload.get("data")
    if not isinstance(data, Mapping) or data.get("alias") in (LIVE_ALIAS, PREVIOUS_ALIAS):
        return None
    name = data.get("name")
    return name if isinstance(name, str) and 0 < len(name) <= _NAME_LIMIT else None
