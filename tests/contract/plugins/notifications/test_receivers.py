"""Each kind of receiver as a server on this machine: what it is sent, and what no log ever has."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from slipway.notifiers.connection import channel_of
from slipway.notifiers.notifier import SlipwayNotifier
from slipway.notifiers.receiver import NeverDeliveredError, NotDeliveredError, without_secrets
from slipway_core.errors import SlipwayError, UserError
from slipway_core.operations.notices.message import Message, message_of
from slipway_core.operations.notices.notice import Fact, Notice
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.notifications.receivers import http_receiver, mail_receiver, tls_of
from tests.support.stalled.deaf import deaf_server

TO = "told"
HOSTILE = "<!channel> @here [reset](https://evil.example) <at>everyone</at> <img src=x> \x1b[31m `x`"
NOTICE = Notice(
    event="rolled_back",
    model="digits",
    version=3,
    at=datetime(2026, 11, 22, 11, 0, tzinfo=UTC),
    reason=f"more errors than stable {HOSTILE}",
    facts=(Fact(name="weight", value="20 %"),),
    release_id="manual-1",
    dag_id="model_release",
)
MESSAGE = message_of(NOTICE, {"Run": "https://airflow.example/dags/model_release/runs/manual-1"})
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN_A, TOKEN_B, TOKEN_C = "T1JJ3T3L2", "B1BRTD4JD", "TIiajkdnlazkcOXrIdevi7kq"
ROUTING_KEY, API_KEY = "a1b2c3d4e5f60718293a4b5c6d7e8f90", "pdapikey7Zq4"
SIGNATURE = "s1gnatureS1gnatureS1gnature"


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the Airflow connection `told`."""

    def make(**fields: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{TO.upper()}", json.dumps({"conn_type": "generic", **fields}))

    return make


def send(message: Message = MESSAGE) -> None:
    """Send a message to the connection."""
    SlipwayNotifier(to=TO, message=message).notify({})


def assert_harmless(text: str) -> None:
    """Nothing in the text mentions anybody or is markup."""
    for bad in ("<!channel>", "@here", "](https", "<at>", "<img", "\x1b"):
        assert bad not in text
    assert "more errors than stable" in text


def test_slack_is_sent_its_webhooks_form(
    connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Title and text are attachments of one message, no mention survives, and no picture is fetched from elsewhere."""
    from apprise.plugins.slack import NotifySlack

    with http_receiver() as slack:
        monkeypatch.setattr(NotifySlack, "webhook_url", f"{slack.address}/services")
        connect(password=f"https://hooks.slack.com/services/{TOKEN_A}/{TOKEN_B}/{TOKEN_C}")
        send()
    (request,) = slack.received
    assert request.path == f"/services/{TOKEN_A}/{TOKEN_B}/{TOKEN_C}"
    (attachment,) = request.json["attachments"]
    assert "digits version 3 was rolled back" in attachment["title"]
    assert_harmless(json.dumps(request.json, ensure_ascii=False))
    assert "weight: 20 %" in attachment["text"]
    assert f"Notice {NOTICE.id}" in attachment["text"]
    assert "githubusercontent" not in request.body.decode()


def test_teams_is_sent_a_card_over_tls(
    connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A workflow of Teams gets one adaptive card, in which nobody is mentioned."""
    tls, trusted = tls_of(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(trusted))
    with http_receiver(tls=tls) as teams:
        connect(password=f"workflows://{LOOPBACK}:{teams.port}/workflow1234/{SIGNATURE}/")
        send()
    (request,) = teams.received
    card = request.json["attachments"][0]["content"]
    assert card["type"] == "AdaptiveCard"
    assert card["msteams"].get("entities") is None
    assert_harmless(json.dumps(card, ensure_ascii=False))


def test_a_certificate_that_nobody_vouches_for_is_refused(
    connect: Callable[..., None], tmp_path: Path
) -> None:
    """Messages go to nobody whose certificate cannot be verified."""
    tls, _ = tls_of(tmp_path)
    with http_receiver(tls=tls) as teams:
        connect(password=f"workflows://{LOOPBACK}:{teams.port}/workflow1234/{SIGNATURE}/")
        with pytest.raises(NotDeliveredError):
            send()
    assert teams.received == []


def test_pagerduty_is_sent_an_event_with_the_notices_name(
    connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Events API v2 form; a notice that is sent again is the same alert."""
    from apprise.plugins import pagerduty

    with http_receiver(202) as pager:
        lookup = dict.fromkeys(pagerduty.PAGERDUTY_API_LOOKUP, f"{pager.address}/v2/enqueue")
        monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", lookup)
        connect(password=f"pagerduty://{ROUTING_KEY}@{API_KEY}/slipway/releases")
        send()
    (request,) = pager.received
    event = request.json
    assert (event["routing_key"], event["event_action"]) == (ROUTING_KEY, "trigger")
    assert event["dedup_key"] == NOTICE.id
    assert event["payload"]["severity"] == "critical"
    assert "digits version 3 was rolled back" in event["payload"]["summary"]
    assert_harmless(event["payload"]["summary"])


def test_mail_is_plain_text_with_the_notices_name(connect: Callable[..., None]) -> None:
    """One mail, no HTML, its subject the title, its name in a header."""
    with mail_receiver(password="mail-secret-77") as mail:
        address = f"mailto://ops:mail-secret-77@{LOOPBACK}:{mail.port}"
        connect(password=f"{address}/?from=slipway@example.org&to=oncall@example.org&mode=insecure")
        send()
    (received,) = mail.mails
    assert received["subject"] == "digits version 3 was rolled back"
    assert received["X-Slipway-Notice"] == NOTICE.id
    assert received.get_content_type() == "text/plain"
    assert_harmless(bytes(received.get_payload(decode=True)).decode())
    assert mail.logins == [("ops", "mail-secret-77")]


def test_a_webhook_is_signed_as_the_standard_says(connect: Callable[..., None]) -> None:
    """Its receiver verifies it with the standard's own library; a changed body is refused."""
    with http_receiver(204) as hook:
        connect(host=f"{hook.address}/slipway?token=q-secret", password=KEY)
        send()
    (request,) = hook.received
    verified = Webhook(KEY).verify(request.body, request.headers)
    assert verified["type"] == "slipway.rolled_back"
    assert verified["data"]["id"] == request.headers["webhook-id"] == NOTICE.id
    assert (verified["data"]["model"], verified["data"]["version"]) == ("digits", 3)
    assert_harmless(json.dumps(verified, ensure_ascii=False))
    with pytest.raises(WebhookVerificationError):
        Webhook(KEY).verify(request.body.replace(b"digits", b"other!"), request.headers)


@pytest.mark.parametrize(
    ("status", "error"),
    [(status, NotDeliveredError) for status in (302, 307, 408, 429, 500, 503)]
    + [(status, NeverDeliveredError) for status in (301, 308, 400, 401, 403, 404, 405, 410, 413, 422, 501)],
)
def test_a_webhook_that_answers_otherwise_was_not_told(
    connect: Callable[..., None], status: int, error: type[SlipwayError]
) -> None:
    """Every answer but 2xx is a failure, some of them for good, and a redirect is not followed."""
    with http_receiver() as elsewhere, http_receiver(status, {"location": elsewhere.address}) as hook:
        connect(host=f"{hook.address}/hook", password=KEY)
        with pytest.raises(error, match=str(status)):
            send()
    assert elsewhere.received == []


def test_a_webhook_says_when_it_wants_to_be_asked_again(connect: Callable[..., None]) -> None:
    """Its `Retry-After` comes with the failure."""
    with http_receiver(429, {"retry-after": "900"}) as hook:
        connect(host=hook.address, password=KEY)
        with pytest.raises(NotDeliveredError) as caught:
            send()
    assert caught.value.retry_after_s == 900


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "https://ops.example.com:port/hook"},
        {"host": "https:///hook"},
        {"host": "ftp://ops.example.com"},
        {"host": "https://[fd00::1/hook"},
        {"host": "https://ops.example.com:1/hook", "port": 2},
        {"host": "https://.example.com/hook"},
        {"host": ""},
    ],
    ids=["no port", "no host", "another scheme", "half an address", "two ports", "no name", "nothing"],
)
def test_an_impossible_address_is_given_up(connect: Callable[..., None], fields: dict[str, Any]) -> None:
    """No further try can succeed, and the error says so without the address."""
    connect(password=KEY, **fields)
    with pytest.raises(NeverDeliveredError) as caught:
        send()
    assert "example" not in str(caught.value).replace("https://ops.example.com/slipway", "")


@pytest.mark.parametrize("address", ["nonsense://secret-token", "slack://", "mailto://secret-token"])
def test_an_address_that_apprise_does_not_know_is_given_up(
    connect: Callable[..., None], address: str
) -> None:
    """It will not know it later, either."""
    connect(password=address)
    with pytest.raises(NeverDeliveredError) as caught:
        send()
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize(("status", "error"), [(403, NeverDeliveredError), (503, NotDeliveredError)])
def test_apprise_tells_what_is_refused_for_good(
    connect: Callable[..., None], status: int, error: type[SlipwayError]
) -> None:
    """What the receiver answered decides, as with a webhook of our own."""
    with http_receiver(status) as hook:
        connect(password=hook.address.replace("http://", "json://"))
        with pytest.raises(error):
            send()


def test_a_host_without_a_scheme_is_https(connect: Callable[..., None]) -> None:
    """A signed message is not sent in the clear because a scheme was forgotten."""
    with http_receiver() as hook:
        connect(host=LOOPBACK, port=hook.port, password=KEY)
        with pytest.raises(NotDeliveredError, match="SSLError"):
            send()
        connect(host=LOOPBACK, port=hook.port, schema="http", password=KEY)
        send()
    assert len(hook.received) == 1


# --- secrets ---

SECRETS = (
    TOKEN_C,
    ROUTING_KEY,
    API_KEY,
    SIGNATURE,
    "mail-secret-77",
    KEY,
    KEY.removeprefix("whsec_"),
    "q-secret",
)


def assert_no_secret(told: str) -> None:
    """None of the secrets is in the text."""
    assert [secret for secret in SECRETS if secret.lower() in told.lower()] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"password": f"https://hooks.slack.com/services/{TOKEN_A}/{TOKEN_B}/{TOKEN_C}"},
        {"password": f"workflows://{LOOPBACK}:{{port}}/workflow1234/{SIGNATURE}/"},
        {"password": f"pagerduty://{ROUTING_KEY}@{API_KEY}/slipway/releases"},
        # The library's own warning quotes what it takes for a wrong severity, region or key.
        {"password": f"pagerduty://{ROUTING_KEY}@{API_KEY}/?region={API_KEY}"},
        {"password": f"pagerduty://{ROUTING_KEY}@{API_KEY}/?severity={API_KEY}"},
        {"password": f"mailto://ops:mail-secret-77@{LOOPBACK}:{{port}}/?from=a@b.org&to=c@d.org"},
        {"password": "slack://mail-secret-77"},
        {"password": f"nothing-known://{TOKEN_C}"},
        {"host": "http://127.0.0.1:{port}/hook?token=q-secret", "password": KEY},
        {"host": "http://user:mail-secret-77@[wrong/hook?token=q-secret", "password": KEY},
        {"host": "http://127.0.0.1:{port}/", "password": f"{KEY}=!"},
        {"password": "mail-secret-77"},
        {"host": "q-secret"},
        {"password": KEY},
    ],
)
def test_no_secret_is_told_where_a_receiver_cannot_be(
    connect: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    fields: dict[str, str],
) -> None:
    """The errors and logs of the libraries have addresses and keys in their texts; ours have none, at any level."""
    from apprise.plugins import pagerduty
    from apprise.plugins.slack import NotifySlack

    port = free_port()
    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://{LOOPBACK}:{port}/services")
    lookup = dict.fromkeys(pagerduty.PAGERDUTY_API_LOOKUP, f"http://{LOOPBACK}:{port}")
    monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", lookup)
    connect(**{name: value.replace("{port}", str(port)) for name, value in fields.items()})
    for logger in (None, "apprise", "urllib3"):
        caplog.set_level(logging.DEBUG, logger)
    with pytest.raises(SlipwayError) as refused:
        SlipwayNotifier(to=TO, message=MESSAGE).notify({})
    assert_no_secret(f"{refused.value} {refused.value.__cause__} {refused.value.to_dict()}")
    assert_no_secret(caplog.text)
    assert_no_secret("".join(capfd.readouterr()))


def test_what_an_address_is_made_of_is_cut_out_of_a_text() -> None:
    """Also where the library has decoded it."""
    told = without_secrets(
        "An invalid key (p@ss/word) for ops at smtp.example.org",
        "mailtos://ops:p%40ss%2Fword@smtp.example.org",
    )
    assert "p@ss" not in told
    assert "word" not in told
    assert "An invalid key" in told


def test_a_connection_that_is_missing_is_named() -> None:
    """The error says which, and where it is described."""
    with pytest.raises(UserError, match="there is no connection 'nobody_knows'"):
        channel_of("nobody_knows")


def test_no_log_has_the_secret_of_a_message_that_was_sent(
    connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where everything is logged: the path of a request to Slack is the key to its channel."""
    from apprise.plugins.slack import NotifySlack

    for logger in (None, "apprise", "urllib3"):
        caplog.set_level(logging.DEBUG, logger)
    with http_receiver() as receiver:
        monkeypatch.setattr(NotifySlack, "webhook_url", f"{receiver.address}/services")
        connect(password=f"https://hooks.slack.com/services/{TOKEN_A}/{TOKEN_B}/{TOKEN_C}")
        send()
        connect(host=f"{receiver.address}/hook?token=q-secret", password=KEY)
        send()
    assert len(receiver.received) == 2
    assert_no_secret(caplog.text)


# --- in anybody's DAG ---


def test_a_callback_of_ones_own_dag_renders_its_text(connect: Callable[..., None]) -> None:
    """The notifier's templates are the user's; what they render to is made harmless, line by line."""
    with http_receiver() as hook:
        connect(host=f"{hook.address}/hook", password=KEY)
        notifier = SlipwayNotifier(to=TO, title="{{ run_id }}", text="first of {{ who }}\nsecond")
        notifier({"run_id": "manual-7", "who": HOSTILE})  # type: ignore[typeddict-unknown-key]
    data = hook.received[0].json["data"]
    assert data["title"] == "manual-7"
    assert data["text"].splitlines()[1] == "second"
    assert "<!channel>" not in data["text"]


def test_what_a_notice_says_is_never_a_template(connect: Callable[..., None]) -> None:
    """A reason that looks like Jinja2 is told as it is."""
    notice = NOTICE.model_copy(update={"reason": "more errors than stable {{ 6 * 7 }}"})
    with http_receiver() as hook:
        connect(host=f"{hook.address}/hook", password=KEY)
        SlipwayNotifier(to=TO, message=message_of(notice))({})
    assert "{{ 6 * 7 }}" in hook.received[0].json["data"]["text"]


def test_a_receiver_that_hangs_is_left_behind(
    connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback waits no longer than the limit, even for one that would drip for ever."""
    monkeypatch.setattr("slipway.notifiers.notifier.LIMIT_S", 0.5)
    with deaf_server() as address:
        connect(host=f"http://{address}/hook", password=KEY)
        with pytest.raises(NotDeliveredError, match="hangs"):
            send()
