"""What channels share: their limits, their errors, and how a secret is kept out of a reason."""

from __future__ import annotations

import re
from urllib.parse import unquote

from slipway_core.errors import TransientError, UserError

CONNECT_LIMIT_S, ANSWER_LIMIT_S = 4.0, 8.0
"""How long one request may wait to connect, and then for an answer."""

_LEAST_SECRET = 4
_HIDDEN = "***"
_SEPARATORS = re.compile(r"[/:@?&=#,+;\s]+")
_REASON_LIMIT = 300


# Beside 5xx: what may be otherwise when it is tried again.
_MAY_PASS = frozenset({408, 409, 421, 423, 425, 429})
# The address has moved for good, or what is asked for is not there at all.
_NEVER_PASS = frozenset({301, 308, 501, 505})


class NotDeliveredError(TransientError):
    """A receiver did not take a message; it may be tried again.

    :param retry_after_s: when the receiver wants to be asked again, 0 where it does not say.
    """

    retry_after_s: float = 0.0


class NeverDeliveredError(UserError):
    """A message cannot be delivered, however often it is tried: the address or the credentials are wrong."""


class ReceiverHangsError(NotDeliveredError):
    """A receiver did not answer in time, and was left behind."""


def is_for_good(status: int) -> bool:
    """Return whether an answer of HTTP says that the same message to the same address will never be taken."""
    return status in _NEVER_PASS or (400 <= status < 500 and status not in _MAY_PASS)


def without_secrets(text: str, address: str) -> str:
    """Return the text without anything that the address is made of, in one short line."""
    parts = _SEPARATORS.split(address)
    pieces = {piece for part in parts for piece in (part, unquote(part), *_SEPARATORS.split(unquote(part)))}
    pieces |= {address, unquote(address)}
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= _LEAST_SECRET:
            text = re.sub(re.escape(piece), _HIDDEN, text, flags=re.IGNORECASE)
    return " ".join(text.split())[:_REASON_LIMIT]
