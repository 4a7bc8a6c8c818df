"""What a request to Airflow's API can end with."""

from __future__ import annotations

import http.client
import json

from include.model_release.errors import ServerUnavailableError, SlipwayError, UserError

_SHOWN = 300


class NotThereError(UserError):
    """The API knows no such thing (404)."""


class SignInRefusedError(UserError):
    """The API does not accept who we are (401)."""


class NotAllowedError(SignInRefusedError):
    """The API knows who we are, and does not let us do it (403)."""


class ConflictError(UserError):
    """What was asked for is there already, or was done already (409)."""


def error_for(what: str, status: int, content: str) -> SlipwayError:
    """Return the error that an answer stands for.

    :param what: what was asked, for the message.
    :param content: the answer's body; of JSON the field `detail` is shown.
    """
    refused = f"Airflow refused {what}"
    found = f"{status} {_detail(content)}"
    if status == http.client.NOT_FOUND:
        return NotThereError(refused, found=found)
    if status == http.client.CONFLICT:
        return ConflictError(refused, found=found)
    if status == http.client.UNAUTHORIZED:
        return SignInRefusedError(refused, found=found, remedy="Check user name and password.")
    if status == http.client.FORBIDDEN:
        return NotAllowedError(
            refused, found=found, remedy="Ask for the right, or do it as somebody who has it."
        )
    if status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS:
        return ServerUnavailableError(
            refused, found=found, remedy="Try again; then look at the API server's log."
        )
    return UserError(refused, found=found, remedy="Compare the request with the DAG's Params.")


def _detail(content: str) -> str:
    try:
        document = json.loads(content)
    except ValueError:
        return content[:_SHOWN]
    detail = document.get("detail", document) if isinstance(document, dict) else document
    return (detail if isinstance(detail, str) else json.dumps(detail))[:_SHOWN]
