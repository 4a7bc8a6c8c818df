"""What people write into the fields of an Airflow connection, read in each of the forms that they write it in."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from airflow.sdk import Connection

_ENCODINGS_LIMIT = 3


def bracketed(host: str) -> str:
    """Return a host as it stands in an address with a port: a bare IPv6 address in brackets, any other as it is."""
    try:
        is_bare = ipaddress.ip_address(host).version == 6
    except ValueError:
        return host
    return f"[{host}]" if is_bare else host


def extra_of(connection: Connection) -> dict[str, Any]:
    """Return the extra of a connection, also where it was encoded as JSON more than once.

    That happens where JSON is put as a text into `AIRFLOW_CONN_…`, or into a secret. Airflow itself gives a text then,
    and nothing at all where the extra cannot be read: a connection would lose its token and its TLS without a word.

    :raises ValueError: it is no JSON object. The text repeats nothing of it.
    """
    from airflow.sdk.log import mask_secret

    written = connection.extra
    found = decoded(written) if (written or "").strip() else {}
    if not isinstance(found, dict):
        raise ValueError("its extra is not a JSON object")
    mask_secret(found)
    return found


def decoded(value: Any) -> Any:
    """Return what a text holds that is JSON, and may hold JSON again; any other value as it is."""
    for _ in range(_ENCODINGS_LIMIT):
        if not isinstance(value, str):
            break
        try:
            # In the URI of a connection each value is percent-encoded, and easily once too often.
            value = json.loads(unquote(value) if value.lstrip()[:3].upper() in ("%7B", "%22") else value)
        except (ValueError, RecursionError):
            break
    return value
