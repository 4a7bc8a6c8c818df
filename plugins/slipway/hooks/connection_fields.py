"""The URL that host, schema and port of an Airflow connection say together."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from airflow_provider_triton.connection_fields import bracketed


def whole_url(host: str, schema: str | None, port: int | None, default_schema: str = "http") -> SplitResult:
    """Return the URL that host, schema and port of a connection say together.

    The host may be a name, an address, `HOST:PORT`, or a whole URL; what it says itself need not be said again.

    :raises ValueError: it is no address of HTTP, or says two different ports. The text repeats nothing of it.
    """
    written = host.strip()
    url = written if "://" in written else f"{schema or default_schema}://{bracketed(written)}"
    try:
        parts = urlsplit(url)
        own_port = parts.port
    except ValueError:
        raise ValueError("not an address with a port from 1 to 65535") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, url)):
        raise ValueError("not an http(s) address")
    if port and own_port is None:
        return parts._replace(netloc=f"{parts.netloc.rstrip(':')}:{port}")
    if port and own_port != port:
        raise ValueError("different ports in its host and its port field")
    return parts


def base_url(host: str, schema: str | None, port: int | None) -> str:
    """Return the same as text, without a slash at its end, for paths that are put behind it.

    :raises ValueError: as `whole_url` says, and where it holds a password, a query or a fragment.
    """
    parts = whole_url(host, schema, port)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("a password, a query or a fragment in it")
    return parts.geturl().rstrip("/")
