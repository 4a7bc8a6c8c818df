"""From an Airflow connection to the receiver that it leads to."""

from __future__ import annotations

from slipway.hooks.connection_fields import whole_url
from slipway.notifiers.receiver import NeverDeliveredError, Receiver
from slipway_core.errors import InputMissingError

_SIGNING_KEY = "whsec_"


def receiver_of(conn_id: str) -> Receiver:
    """Return the receiver that an Airflow connection leads to.

    Its password is the address in Apprise's form, that of an AWS service (its login is then the connection of type
    ``aws``), or `whsec_…`, the key of a signed webhook whose URL is the host.

    :raises InputMissingError: there is no such connection now.
    :raises NeverDeliveredError: nothing can be sent by it.
    """
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        connection = BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise InputMissingError(
            f"there is no connection {conn_id!r} to tell people by",
            expected="an Airflow connection, as docs/notifications.md describes it",
            found=type(error).__name__,
            remedy="make it, or correct `to` in the release file's `notify`",
        ) from None
    secret = (connection.password or "").strip()
    if secret.startswith(_SIGNING_KEY):
        from slipway.notifiers.channels.webhook import SignedWebhook

        return SignedWebhook(_url(connection.schema, connection.host, connection.port), secret)
    if "+aws://" in secret:
        from slipway.notifiers.channels.aws import DEFAULT_CONN_ID, AwsReceiver

        return AwsReceiver(secret, connection.login or DEFAULT_CONN_ID)
    if "://" in secret:
        from slipway.notifiers.channels.apprise import AppriseReceiver

        return AppriseReceiver(secret)
    raise NeverDeliveredError(
        f"the connection {conn_id!r} leads to nobody",
        expected="in its password an address such as slack://…, or whsec_… and a URL as its host",
        found="a password of another form" if secret else "no password",
        remedy="see docs/notifications.md",
    )


def _url(schema: str | None, host: str | None, port: int | None) -> str:
    """Return the URL of a webhook: the connection's host, with what it leaves out."""
    if not host:
        raise NeverDeliveredError(
            "the connection of a signed webhook names no address",
            expected="a URL as its host, such as https://ops.example.com/slipway",
            found="no host",
            remedy="see docs/notifications.md",
        )
    try:
        return whole_url(host, schema, port, "https").geturl()
    except ValueError as error:
        raise NeverDeliveredError(
            "the connection of a signed webhook names an address that is none",
            expected="a URL as its host, such as https://ops.example.com/slipway",
            found=str(error),
            remedy="see docs/notifications.md",
        ) from None
