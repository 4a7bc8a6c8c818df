"""Freezes: a person has stopped the raises of one model, or of all, until a moment, with a reason.

    s3://BUCKET/records/MODEL/freezes/UNTIL-ID.json           one freeze; `_all` in place of MODEL stops every model
    s3://BUCKET/records/MODEL/freezes/UNTIL-ID.lifted.json    who has lifted it before its end

Both are written once. Names begin with the end, so that a listing from now on has no freeze that is over.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError
from slipway_core.four_eyes import require_person
from slipway_core.operations.rejection import REASON_LIMIT
from slipway_core.record.shown import Shown, ShownThen, nothing_shown
from slipway_rules.text_forms import is_dns_label

FREEZE_LIMIT_BYTES = 16 << 10
LONGEST_FREEZE = timedelta(days=366)
# No name of a model: those have no underscore.
_EVERY_MODEL = "_all"
_LIFTED = ".lifted"
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(?P<until>[0-9]{8}T[0-9]{6}Z)-(?P<id>[0-9a-f]{16})(?P<lifted>\.lifted)?\.json")
_REMEDY = "check the object; only Slipway should write under records/"


class FreezeUnreadableError(UserError):
    """An object in the place of a freeze is invalid, so it is unknown what is frozen."""


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    by: Annotated[str, Field(min_length=1, max_length=250)]
    at: AwareDatetime
    reason: Annotated[str, Field(min_length=1, max_length=REASON_LIMIT)]
    shown: ShownThen = Field(default=(), exclude_if=nothing_shown)


class _FreezeDocument(_Document):
    kind: Literal["freeze"] = "freeze"
    model: str | None
    until: AwareDatetime


class _LiftedDocument(_Document):
    kind: Literal["lifted"] = "lifted"
    freeze_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Freeze:
    """One freeze as it lies in the store.

    :param model: what is frozen; None: every model.
    :param until: when it ends by itself, UTC.
    :param sha256: the digest of its object, by which an override names it.
    """

    model: str | None
    by: str
    at: datetime
    until: datetime
    reason: str
    key: str
    sha256: str

    @property
    def sentence(self) -> str:
        """What is frozen, by whom, until when and why, in words."""
        what = "every model is" if self.model is None else f"{self.model!r} is"
        return f"{what} frozen by {self.by} until {utc_text(self.until)}: {self.reason}"


@dataclass(frozen=True)
class Lifted:
    """Who has lifted a freeze before its end, when (UTC) and why; `freeze_sha256` is the digest of that freeze."""

    by: str
    at: datetime
    reason: str
    freeze_sha256: str


def freezes_prefix(model: str | None) -> str:
    """Return the folder of a model's freezes; None: of those for every model."""
    return f"records/{model or _EVERY_MODEL}/freezes/"


def first_key_after(model: str | None, now: datetime) -> str:
    """Return the text after which, by their names, only freezes lie that end after `now`."""
    return f"{freezes_prefix(model)}{now.astimezone(UTC):{_TIME}}~"


def lifted_key(freeze_key: str) -> str:
    """Return the key of the object that lifts a freeze."""
    return f"{freeze_key.removesuffix('.json')}{_LIFTED}.json"


def parse_freeze_name(key: str, model: str | None) -> bool | None:
    """Return whether a key is that of a freeze (True) or of what lifts one (False); None: of neither."""
    match = _NAME.fullmatch(key.removeprefix(freezes_prefix(model)))
    return None if match is None else match["lifted"] is None


def freeze(
    model: str | None,
    *,
    who: str | None,
    now: datetime,
    until: datetime,
    reason: str,
    run_id: str,
    shown: tuple[Shown, ...] = (),
) -> tuple[str, bytes]:
    """Return key and content of a new freeze; the same run asks for the same key again.

    :param shown: what is in front of the person.
    :raises UserError: the person is unknown, or it would end before it began or after a year and a day.
    """
    by, until = require_person(who), until.astimezone(UTC).replace(microsecond=0)
    if not now < until <= now + LONGEST_FREEZE:
        raise UserError(
            "a freeze must end in the future",
            expected=f"`until` between now, {utc_text(now)}, and {LONGEST_FREEZE.days} days later",
            found=utc_text(until),
            remedy="give the time at which releases may continue, with its time zone",
        )
    document = _FreezeDocument(
        model=model, by=by, at=now.astimezone(UTC), until=until, reason=reason[:REASON_LIMIT], shown=shown
    )
    ident = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    return f"{freezes_prefix(model)}{until:{_TIME}}-{ident}.json", document.model_dump_json().encode()


def lifted(
    one: Freeze, *, who: str | None, now: datetime, reason: str, shown: tuple[Shown, ...] = ()
) -> tuple[str, bytes]:
    """Return key and content of what lifts a freeze.

    :param shown: what is in front of the person, beside the freeze itself.
    :raises UserError: the person is unknown.
    """
    document = _LiftedDocument(
        by=require_person(who),
        at=now.astimezone(UTC),
        reason=reason[:REASON_LIMIT],
        freeze_sha256=one.sha256,
        shown=shown,
    )
    return lifted_key(one.key), document.model_dump_json().encode()


def parse_freeze(content: bytes, key: str) -> Freeze:
    """Read the freeze that lies under a key.

    :raises FreezeUnreadableError: it is invalid, or belongs under another key.
    """
    try:
        document = _FreezeDocument.model_validate_json(_bounded(content, key))
        until = document.until.astimezone(UTC)
        at = document.at.astimezone(UTC)
    except (ValidationError, OverflowError) as error:
        raise _unreadable(key, error) from error
    is_named = document.model is None or is_dns_label(document.model)
    if not is_named or not key.startswith(f"{freezes_prefix(document.model)}{until:{_TIME}}-"):
        raise FreezeUnreadableError(
            f"{key} holds another freeze than its key says",
            expected="the model and the end that are in the key",
            found=f"{(document.model or 'every model')[:100]!r} until {utc_text(until)}",
            remedy=_REMEDY,
        )
    digest = hashlib.sha256(content).hexdigest()
    return Freeze(document.model, document.by, at, until, document.reason, key, digest)


def is_lifted(content: bytes, key: str, one: Freeze) -> bool:
    """Return whether the object under `lifted_key` lifts this very freeze.

    :raises FreezeUnreadableError: it does not say so.
    """
    return parse_lifted(content, key).freeze_sha256 == one.sha256


def parse_lifted(content: bytes, key: str) -> Lifted:
    """Read what lifts a freeze.

    :raises FreezeUnreadableError: it does not say so.
    """
    try:
        document = _LiftedDocument.model_validate_json(_bounded(content, key))
        at = document.at.astimezone(UTC)
    except (ValidationError, OverflowError) as error:
        raise _unreadable(key, error) from error
    return Lifted(document.by, at, document.reason, document.freeze_sha256)


def utc_text(moment: datetime) -> str:
    """Return a moment as messages name it."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _bounded(content: bytes, key: str) -> bytes:
    if len(content) <= FREEZE_LIMIT_BYTES:
        return content
    raise FreezeUnreadableError(
        f"{key} is too large to be a freeze",
        expected=f"at most {FREEZE_LIMIT_BYTES} bytes",
        found=f"{len(content)} bytes",
        remedy=_REMEDY,
    )


def _unreadable(key: str, error: Exception) -> FreezeUnreadableError:
    found = first_problem(error) if isinstance(error, ValidationError) else str(error)
    return FreezeUnreadableError(
        f"{key} is not a valid freeze",
        expected="JSON with kind, by, at, reason and, by its kind, model and until, or freeze_sha256",
        found=found,
        remedy=_REMEDY,
    )
