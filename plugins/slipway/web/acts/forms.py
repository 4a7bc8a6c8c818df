"""A form as a browser sends it, read: bounded, and hostile until it is parsed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from fastapi import Request

from slipway_core.acts.requests import ActInput, Question
from slipway_core.errors import UserError
from slipway_core.identifiers import parse_version

BODY_LIMIT_BYTES = 16 << 10
_FIELDS_LIMIT = 40
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


class OversizedError(Exception):
    """A body is too large."""


async def read_fields(request: Request) -> dict[str, str]:
    """Return the fields that were sent, each once.

    :raises OversizedError: there are more bytes than a form of ours has.
    :raises UserError: it is no form.
    """
    body = await _read(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _FORM:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=_FIELDS_LIMIT
            )
        elif kind == _JSON:
            found = json.loads(body)
            if not isinstance(found, dict) or len(found) > _FIELDS_LIMIT:
                raise ValueError("not an object with fields")
            pairs = [(str(name), _text(value)) for name, value in found.items()]
        else:
            raise ValueError(f"content type {kind[:100] or 'none'}")
    except (ValueError, RecursionError) as error:
        raise UserError(
            "the form cannot be read", expected=f"{_FORM} or {_JSON}", found=str(error)[:200]
        ) from error
    if len({name for name, _ in pairs}) != len(pairs):
        raise UserError("the form cannot be read", expected="each field once", found="one twice")
    return dict(pairs)


def asked_of(fields: Mapping[str, str]) -> ActInput:
    """Return what a person has filled in.

    :raises SlipwayError: a field holds what it cannot hold.
    """
    version = fields.get("version", "").strip()
    return ActInput(
        model=fields.get("model", "").strip() or None,
        version=parse_version(version) if version else None,
        reason=" ".join(fields.get("reason", "").split()),
        until=_moment(fields.get("until", "").strip()),
        finding=fields.get("finding", "").strip(),
        evidence=fields.get("evidence", "").strip(),
        force=_ticked(fields, "force"),
        wait_for_approval=_ticked(fields, "wait_for_approval"),
        newer=_ticked(fields, "newer"),
        emergency=_ticked(fields, "emergency"),
        question=_question(fields),
        release_id=fields.get("release_id", "").strip(),
    )


async def _read(request: Request) -> bytes:
    """Return the body; it is not read where it says, or turns out, to be too large."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 12 or int(length) > BODY_LIMIT_BYTES):
        raise OversizedError
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_LIMIT_BYTES:
            raise OversizedError
    return bytes(body)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    if value is None or isinstance(value, str | int):
        return "" if value is None else str(value)
    raise ValueError("a field that is not text")


def _ticked(fields: Mapping[str, str], name: str) -> bool:
    value = fields.get(name, "")
    if value in ("", "false"):
        return False
    if value in ("on", "true"):
        return True
    raise UserError(f"{name} must be checked or not", expected="on, or nothing", found=repr(value)[:100])


def _moment(value: str) -> datetime | None:
    """Return a moment; one without a time zone, as a browser's field gives it, is UTC, as its label says."""
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise UserError(
            "until is not a time", expected="such as 2026-12-28T08:00Z", found=repr(value)[:100]
        ) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _question(fields: Mapping[str, str]) -> Question | None:
    dag_id, run_id, task_id = (fields.get(f"question_{part}", "").strip() for part in ("dag", "run", "task"))
    if not (dag_id and run_id and task_id):
        return None
    index = fields.get("question_index", "-1")
    if not (index == "-1" or (index.isdecimal() and len(index) < 7)):
        raise UserError("question_index is a number", expected="-1, or 0 and above", found=repr(index)[:100])
    return Question(dag_id, run_id, task_id, int(index))
