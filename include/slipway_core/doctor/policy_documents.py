"""Policies of AWS, as far as it takes to compare two of them, and to see who may send to a queue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_ACCOUNT = re.compile(r"(?<=:)[0-9]{12}(?=:)")
_COMPARED = ("Effect", "Action", "NotAction", "Resource", "NotResource")


def statements(policy: str) -> list[Mapping[str, Any]]:
    """Return the statements of a policy.

    :raises ValueError: it is no policy.
    """
    try:
        found = json.loads(policy)["Statement"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("no policy document") from error
    found = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) for one in found):
        raise ValueError("no policy document")
    return found


def differing_statements(policy: str, wanted: str, bucket: str) -> tuple[list[str], list[str]]:
    """Return the names (`Sid`) of the statements that are missing of those wanted, and of those that differ.

    Account and bucket may have any name, and so may the roles in conditions: only effect, actions and resources count.

    :raises ValueError: one of them is no policy.
    """
    found = {str(one.get("Sid", "")): _form(one, bucket) for one in statements(policy)}
    asked = {str(one.get("Sid", "")): _form(one, "BUCKET") for one in statements(wanted)}
    missing = [name for name in asked if name not in found]
    return missing, [name for name, form in asked.items() if name in found and found[name] != form]


def _form(statement: Mapping[str, Any], bucket: str) -> dict[str, list[str]]:
    """Return what counts of a statement, with every name of the bucket as BUCKET."""
    return {
        key: sorted(_plain(text, bucket) for text in _texts(statement[key]))
        for key in _COMPARED
        if key in statement
    }


def _plain(text: str, bucket: str) -> str:
    named = _ACCOUNT.sub("ACCOUNT", text)
    for end in ("", "/"):
        if named.startswith(f"arn:aws:s3:::{bucket}{end}"):
            rest = named.removeprefix(f"arn:aws:s3:::{bucket}")
            if not rest or rest.startswith("/"):
                return f"arn:aws:s3:::BUCKET{rest}"
    return named


def may_send(policy: str, service: str, source_arn: str) -> bool:
    """Return whether a queue's policy lets a service of AWS send messages for a source.

    :param service: such as `s3.amazonaws.com`.
    :param source_arn: the bucket, topic or rule; `*` in it stands for anything.
    :raises ValueError: it is no policy.
    """
    return any(
        one.get("Effect") == "Allow"
        and _sends(one)
        and _is_for(one.get("Principal"), service)
        and _from(one, source_arn)
        for one in statements(policy)
    )


def _sends(statement: Mapping[str, Any]) -> bool:
    actions = {action.lower() for action in _texts(statement.get("Action", []))}
    return bool(actions & {"*", "sqs:*", "sqs:sendmessage", "sqs:send*"})


def _is_for(principal: Any, service: str) -> bool:
    if principal == "*":
        return True
    if not isinstance(principal, Mapping):
        return False
    return service in _texts(principal.get("Service", [])) or "*" in _texts(principal.get("AWS", []))


def _from(statement: Mapping[str, Any], source_arn: str) -> bool:
    """Return whether the condition on the source lets this one; without such a condition anybody's may."""
    sources = [
        text
        for operator in _mappings(statement.get("Condition"))
        for key, value in operator.items()
        if str(key).lower() == "aws:sourcearn"
        for text in _texts(value)
    ]
    return not sources or any(
        _matches(source, source_arn) or _matches(source_arn, source) for source in sources
    )


def _matches(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text) is not None


def _mappings(condition: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(condition, Mapping):
        yield from (one for one in condition.values() if isinstance(one, Mapping))


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
