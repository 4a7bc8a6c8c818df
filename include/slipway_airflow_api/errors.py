"""What a request to Airflow's API can end with."""

from __future__ import annotations

import json
import re
from http import HTTPStatus

from slipway_core.errors import ServerUnavailableError, SlipwayError, UserError

_SHOWN = 300


class AddressError(UserError):
    """The address given for a server is invalid."""


class NotThereError(UserError):
    """The API knows no such thing (404)."""


class SignInRefusedError(UserError):
    """The API does not accept who we are (401)."""


class NotAllowedError(SignInRefusedError):
    """The API knows who we are, and does not let us do it (403)."""


class ConflictError(UserError):
    """What was asked for is there already, or was done already (409)."""


class ServerFailedError(ServerUnavailableError):
    """The API answered with its own error (5xx): what was asked for may have been done nevertheless."""


def error_for(what: str, status: int, content: str) -> SlipwayError:
    """Return the error that an answer stands for.

    :param what: what was asked, for the message.
    :param content: the answer's body; of JSON the fields `detail` and `remedy` are shown.
    """
    refused = f"Airflow refused {what}"
    message, remedy = _message(content)
    found = f"{status} {message}"
    if status == HTTPStatus.NOT_FOUND:
        return NotThereError(refused, found=found, remedy=remedy)
    if status == HTTPStatus.CONFLICT:
        return ConflictError(refused, found=found, remedy=remedy)
    if status == HTTPStatus.UNAUTHORIZED:
        return SignInRefusedError(refused, found=found, remedy="Check user name and password.")
    if status == HTTPStatus.FORBIDDEN:
        otherwise = f"Ask an Airflow administrator for the right to make this request ({what})."
        return NotAllowedError(refused, found=found, remedy=remedy or otherwise)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        otherwise = "Try again; then look at the API server's log."
        kind = ServerFailedError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ServerUnavailableError
        return kind(refused, found=found, remedy=remedy or otherwise)
    return UserError(refused, found=found, remedy=remedy or "Compare the request with the DAG's Params.")


def _message(content: str) -> tuple[str, str | None]:
    """Return what an answer says is wrong, and what to do about it where it says that."""
    try:
        document = json.loads(content)
    except ValueError:
        return content[:_SHOWN], None
    if not isinstance(document, dict):
        return json.dumps(document)[:_SHOWN], None
    detail, remedy = document.get("detail", document), document.get("remedy")
    message = detail if isinstance(detail, str) else json.dumps(detail)
    # Behind what is wrong, jsonschema writes the whole schema.
    message = re.split(r"\s*(?:\\n)*\s*Failed validating ", message, maxsplit=1)[0].strip()
    return message[:_SHOWN], remedy[:_SHOWN] if isinstance(remedy, str) and remedy else None
