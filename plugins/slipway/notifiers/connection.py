"""From an Airflow connection to the channel that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_triton.connection_fields import extra_of
from slipway.notifiers.channel import CHANNELS, Channel
from slipway.notifiers.receiver import NeverDeliveredError
from slipway_core.errors import InputMissingError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def channel_of(conn_id: str) -> Channel:
    """Return the channel that an Airflow connection describes.

    Its extra names the channel, as `{"channel": NAME}`; without it the form of its password does, if that is of one of
    Slipway's own channels.

    :raises InputMissingError: there is no such connection now.
    :raises UnknownKindError: it names a channel that nobody knows.
    :raises KindUnusableError: it names a channel of another package that cannot be used.
    :raises NeverDeliveredError: nothing can be sent by it.
    """
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        connection = BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise InputMissingError(
            f"there is no connection {conn_id!r} for notifications",
            expected="an Airflow connection, as docs/notifications.md describes it",
            found=type(error).__name__,
            remedy="create it, or correct `to` in the release file's `notify`",
        ) from None
    named = extra_of(connection).get("channel")
    name = _by_password(conn_id, connection) if named is None else str(named)
    return CHANNELS.get(name).of(connection)


def _by_password(conn_id: str, connection: Connection) -> str:
    """Return the name of the one channel of Slipway's whose passwords look like the connection's."""
    password = (connection.password or "").strip()
    fitting = [
        name
        for name in CHANNELS.built_in()
        if (form := CHANNELS.get(name).password) is not None and form.match(password)
    ]
    if len(fitting) == 1:
        return fitting[0]
    raise NeverDeliveredError(
        f"the connection {conn_id!r} has no receiver",
        expected="in its password an address such as slack://…, or whsec_… and a URL as its host; "
        'or in its extra the name of its channel, as {"channel": "…"}',
        found="a password in another form" if password else "no password",
        remedy="see docs/notifications.md",
    )
