"""Webhooks as MLflow signs them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

SECRET = "a secret of the tests"
DELIVERY = "5b1f9a52-7a90-4d26-9f44-30a5b8f2b1c7"


def body_of(name: str = "digits", entity: str = "model_version_alias", alias: str = "candidate") -> bytes:
    """Return what MLflow tells of an alias that was set."""
    data = {"name": name, "alias": alias, "version": "1"}
    return json.dumps(
        {"entity": entity, "action": "created", "timestamp": "2026-01-02", "data": data}
    ).encode()


def signed(
    body: bytes, *, secret: str = SECRET, delivery: str = DELIVERY, at_s: float | None = None
) -> dict[str, str]:
    """Return the headers of a delivery."""
    timestamp = str(int(time.time() if at_s is None else at_s))
    digest = hmac.new(secret.encode(), f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "x-mlflow-delivery-id": delivery,
        "x-mlflow-timestamp": timestamp,
        "x-mlflow-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
