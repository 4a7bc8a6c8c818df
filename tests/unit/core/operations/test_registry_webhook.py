"""Which requests are webhooks of MLflow's."""

from __future__ import annotations

import pytest

from slipway_core.errors import WebhookRefusedError
from slipway_core.operations.registry_webhook import FRESH_FOR_S, Delivery, read_delivery
from tests.support.registry.webhooks import DELIVERY, SECRET, body_of, signed

NOW_S = 1_800_000_000.0
BODY = body_of()
GOOD = signed(BODY, at_s=NOW_S)


def test_a_signed_delivery_is_read() -> None:
    """It names the registered model of which an alias was set."""
    assert read_delivery(GOOD, BODY, SECRET, NOW_S) == Delivery(DELIVERY, "digits")


def test_one_of_several_signatures_is_enough() -> None:
    """While the secret is being changed."""
    headers = {**GOOD, "x-mlflow-signature": f"v1,AAAA {GOOD['x-mlflow-signature']}"}
    assert read_delivery(headers, BODY, SECRET, NOW_S).registered_model == "digits"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {name: value for name, value in GOOD.items() if "signature" not in name},
        {name: value for name, value in GOOD.items() if "timestamp" not in name},
        {name: value for name, value in GOOD.items() if "delivery" not in name},
        {**GOOD, "x-mlflow-delivery-id": "5b1f9a52-7a90-4d26-9f44-30a5b8f2b1c8"},
        {**GOOD, "x-mlflow-delivery-id": "../../etc"},
        {**GOOD, "x-mlflow-timestamp": str(int(NOW_S) + 1)},
        {**GOOD, "x-mlflow-timestamp": "-1"},
        {**GOOD, "x-mlflow-timestamp": "٣"},
        {**GOOD, "x-mlflow-signature": GOOD["x-mlflow-signature"].removeprefix("v1,")},
        {**GOOD, "x-mlflow-signature": GOOD["x-mlflow-signature"].replace("v1,", "v2,")},
        {**GOOD, "x-mlflow-signature": "v1,"},
        {**GOOD, "x-mlflow-signature": "v1,\u00fc\udcff"},
        signed(BODY, secret="another secret of the tests", at_s=NOW_S),
        signed(body_of("magika"), at_s=NOW_S),
        signed(BODY, at_s=NOW_S - FRESH_FOR_S - 1),
        signed(BODY, at_s=NOW_S + FRESH_FOR_S + 1),
    ],
)
def test_what_is_not_proved_is_refused(headers: dict[str, str]) -> None:
    """Without a header, with another id, time, secret or body, or too old."""
    with pytest.raises(WebhookRefusedError):
        read_delivery(headers, BODY, SECRET, NOW_S)


@pytest.mark.parametrize("secret", ["", "short"])
def test_without_a_secret_nothing_is_proved(secret: str) -> None:
    """Also where the request is signed with just that."""
    with pytest.raises(WebhookRefusedError):
        read_delivery(signed(BODY, secret=secret, at_s=NOW_S), BODY, secret, NOW_S)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"entity": "model_version_alias"}',
        b'{"entity": "model_version_alias", "data": {"name": 5}}',
        body_of(entity="prompt_alias"),
        body_of(entity="model_version_tag"),
        body_of(alias="live"),
        body_of(alias="previous"),
        body_of("x" * 251),
    ],
)
def test_what_tells_of_something_else_names_no_model(body: bytes) -> None:
    """Signed all the same; what Slipway writes itself is among it, or each sync would start another one."""
    assert read_delivery(signed(body, at_s=NOW_S), body, SECRET, NOW_S).registered_model is None
