"""A notice: one message to people about a model, and what is kept of its delivery."""

from __future__ import annotations

import hashlib
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from slipway_core.operations.documents import OperationsDocument
from slipway_core.spec.notify import ConnectionId, NoticeEvent
from slipway_core.value_types import UtcTime
from slipway_rules.text_forms import VERSION_LIMIT

FACTS_LIMIT = 12
_REASON_LIMIT, _VALUE_LIMIT, _NAME_LIMIT = 600, 200, 60


def shortened(text: str, limit: int) -> str:
    """Return the text with at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _at_most(limit: int) -> BeforeValidator:
    # What is too long is shortened, what isn't valid Unicode is replaced: no text may prevent a notice.
    def cut(value: object) -> object:
        if not isinstance(value, str):
            return value
        return shortened(value[: limit + 1].encode("utf-8", "replace").decode(), limit)

    return BeforeValidator(cut)


class Fact(BaseModel):
    """A number or a short text beside the reason, such as `weight: 5 %`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, _at_most(_NAME_LIMIT)]
    value: Annotated[str, _at_most(_VALUE_LIMIT)]


class Notice(OperationsDocument):
    """One message to people.

    `reason`, and the facts' values, may come from a model or from a person: they are made harmless where the message
    is written. `release_id` is the Airflow run, "" if none is meant, and `dag_id` its DAG. `evidence` is the
    S3 address of a page or a folder. `about` tells two notices of the same event and run apart, such as the weights
    at which a release was held.
    """

    called: ClassVar[str] = "notice"
    limit_bytes: ClassVar[int] = 32 << 10

    event: NoticeEvent
    model: Annotated[str, _at_most(_NAME_LIMIT)]
    version: Annotated[int | None, Field(ge=1, le=VERSION_LIMIT)] = None
    at: UtcTime
    reason: Annotated[str, _at_most(_REASON_LIMIT)] = ""
    facts: Annotated[tuple[Fact, ...], Field(max_length=FACTS_LIMIT)] = ()
    release_id: Annotated[str, _at_most(_REASON_LIMIT)] = ""
    dag_id: Annotated[str, _at_most(_VALUE_LIMIT)] = ""
    evidence: Annotated[str, _at_most(1200)] = ""
    about: Annotated[str, _at_most(_REASON_LIMIT)] = ""

    @property
    def id(self) -> str:
        """The notice's name: equal if the same message is sent again, so that a receiver can drop the second one."""
        said = (self.event, self.model, str(self.version or ""), self.dag_id, self.release_id, self.about)
        return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class OutboxEntry(OperationsDocument):
    """A notice that waits to be delivered: to whom still, and how often that has failed.

    :param failures: the last reason by receiver.
    """

    called: ClassVar[str] = "entry of the outbox"
    limit_bytes: ClassVar[int] = 64 << 10

    notice: Notice
    to: Annotated[tuple[ConnectionId, ...], Field(min_length=1, max_length=50)]
    attempts: Annotated[int, Field(ge=0, le=1000)] = 0
    failures: dict[str, Annotated[str, _at_most(_REASON_LIMIT)]] = Field(default_factory=dict)
