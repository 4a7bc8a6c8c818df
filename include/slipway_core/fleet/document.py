"""What is kept of a fleet in the object store: which version it has, and which release is under way."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError
from slipway_core.fleet.plan import Phase
from slipway_core.identifiers import validate_model_name
from slipway_core.value_types import Sha256

LIMIT_BYTES = 4 << 20


def fleet_key(fleet: str) -> str:
    """Return where a fleet's document lies."""
    return f"fleets/{validate_model_name(fleet)}/fleet.json"


class Before(BaseModel):
    """What a server served before a release; nothing if `version` is None.

    :param is_alias: through an alias of this project; otherwise the model itself was loaded, with `config`.
    :param called: of an alias, the configuration of each model that it leads to, by name, in the order of the loads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int | None = None
    is_alias: bool = False
    config: dict[str, Any] | None = None
    called: dict[str, dict[str, Any]] = {}


class RunNote(BaseModel):
    """A release that is under way, written before each phase begins.

    :param holder: the process that carries it out: a later one takes over, and the one before can write nothing more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    holder: str
    version: int
    manifest_sha256: Sha256
    phase: Phase
    began: datetime
    before: dict[str, Before]
    reasons: tuple[str, ...] = ()


class FleetDocument(BaseModel):
    """A fleet.

    :param version: what its servers serve by the last release that was committed; None: none was.
    :param run: the release that is under way; None: none is.
    :param fenced: servers that were taken out, each with the reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fleet: str
    model: str
    version: int | None = None
    manifest_sha256: str = ""
    run: RunNote | None = None
    fenced: dict[str, str] = {}

    def to_bytes(self) -> bytes:
        """Return the document as UTF-8 JSON."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Return the document in `content`.

        :param name: where it lies.
        :raises UserError: it is invalid.
        """
        found = f"{len(content)} bytes"
        try:
            if len(content) <= LIMIT_BYTES:
                return cls.model_validate_json(content)
        except ValidationError as error:
            found = first_problem(error)
        raise UserError(
            f"{name} is not a valid fleet document",
            expected="a document as this project writes it",
            found=found,
            remedy="find out who wrote it; no server is changed by it",
        )
