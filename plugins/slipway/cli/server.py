"""What the command reads of a server: the documents of the read model, by the project's JSON API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from include.airflow_api.errors import NotThereError
from include.airflow_api.session import Session
from include.model_release.errors import ServerUnavailableError, UserError
from slipway.cli.failures import CommandError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from include.model_release.fleet.parity import Parity
    from include.model_release.read_model.documents import FreezeLine, ModelDocument
    from include.model_release.read_model.live import LiveDocument
    from include.model_release.read_model.release_view import ReleaseView

API = "/slipway/api"
_BEING_MADE = "being made again"
"""What the server says where a model's document is lost and is folded anew."""
_MADE_SOON = 5
Document = TypeVar("Document", bound="BaseModel")


class NotKnownError(CommandError):
    """There is no record of a model."""


class UnknownVersionError(CommandError):
    """Nothing is known of a version."""


@dataclass(frozen=True)
class VersionDocuments:
    """One version: its release as a page shows it, and the watch of its canary while there is one."""

    view: ReleaseView
    live: LiveDocument | None


class Server:
    """Reads one server's documents; each is parsed before anything of it is shown.

    :param sleep: waits so many seconds, while a document is being made.
    """

    def __init__(self, session: Session, sleep: Callable[[float], None]) -> None:
        self._session, self._sleep = session, sleep
        self.problem = ""
        """Why what was read last may be old, in the server's words; "": it is as new as can be."""
        self.warnings: tuple[str, ...] = ()
        """What is wrong with the deployment as a whole, as the server has said it last."""
        self.freezes: tuple[FreezeLine, ...] = ()
        """The freezes of all models at once, as `models` has read them."""

    def models(self) -> dict[str, ModelDocument | str]:
        """Return the document of each model, by name; a text says why a model's cannot be read."""
        from include.model_release.read_model.documents import FreezeLine, ModelDocument

        answer, found = self._json("/models"), dict[str, ModelDocument | str]()
        self.freezes = tuple(_parsed(FreezeLine, one, "/models") for one in _list(answer.get("freezes")))
        for entry in _list(answer.get("models")):
            if "reason" in entry and "versions" not in entry:
                found[str(entry.get("model"))] = str(entry["reason"])
            else:
                document = _parsed(ModelDocument, entry, "/models")
                found[document.model] = document
        return found

    def model(self, name: str) -> ModelDocument:
        """Return what is known of a model.

        :raises NotKnownError: there is no record of it.
        """
        from include.model_release.read_model.documents import ModelDocument

        path = f"/models/{quote(name, safe='')}"
        try:
            return _parsed(ModelDocument, self._json(path), path)
        except NotThereError as error:
            raise NotKnownError(
                f"there is no model {name!r}, or no version of it was ever released",
                expected="a model with a record",
                found=error.found,
                remedy=f"slipway list; or slipway release {name} VERSION",
            ) from None

    def model_or_empty(self, name: str, now: datetime) -> ModelDocument:
        """Return what is known of a model; of one that was never released, a document without versions."""
        from include.model_release.read_model.documents import ModelDocument

        try:
            return self.model(name)
        except NotKnownError:
            return ModelDocument(model=name, written_at=now)

    def fleet(self, name: str) -> Parity:
        """Return what the servers of a fleet serve; Airflow asks them for this answer."""
        from include.model_release.fleet.parity import Parity

        path = f"/fleets/{quote(name, safe='')}"
        document = {key: value for key, value in self._json(path).items() if key != "agree"}
        return _parsed(Parity, document, path)

    def version(self, model: str, version: int) -> VersionDocuments:
        """Return what is known of a version, and of its canary.

        :raises UnknownVersionError: there is no record of it.
        """
        from include.model_release.read_model.live import LiveDocument
        from include.model_release.read_model.release_view import ReleaseView

        path = f"/models/{quote(model, safe='')}/versions/{version}"
        try:
            document = self._json(path)
        except NotThereError as error:
            raise UnknownVersionError(
                f"nothing is known of {model} version {version}",
                expected="a version that was released, or was tried",
                found=error.found,
                remedy=f"slipway get {model}",
            ) from None
        live = document.get("live")
        return VersionDocuments(
            _parsed(ReleaseView, document.get("release"), path),
            None if live is None else _parsed(LiveDocument, live, path),
        )

    def _json(self, path: str) -> dict[str, Any]:
        try:
            document = json.loads(self._get(API + path))
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._foreign(path)
        self.problem = str(document.get("problem") or "")
        warnings = document.get("warnings")
        self.warnings = tuple(map(str, warnings)) if isinstance(warnings, list) else self.warnings
        return document

    def _get(self, path: str) -> bytes:
        """Read a document; one that the server is making at this moment is soon there."""
        for _ in range(_MADE_SOON):
            try:
                return self._session.get(path)
            except ServerUnavailableError as error:
                if _BEING_MADE not in (error.found or ""):
                    raise
            self._sleep(1.0)
        return self._session.get(path)

    def _foreign(self, path: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"what answers {API}{path} is not Slipway",
            expected="a JSON document",
            found="something else",
            remedy="see whether this Airflow has Slipway's plugin, and whether the address is right",
        )


def _list(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _parsed(kind: type[Document], value: object, path: str) -> Document:
    from pydantic import ValidationError

    from include.model_release.document_form import first_problem

    if not isinstance(value, Mapping):
        raise _strange(path, "no document")
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise _strange(path, first_problem(error)) from None


def _strange(path: str, found: str) -> UserError:
    return UserError(
        f"the answer to {API}{path} cannot be used",
        expected="a document of this version of Slipway",
        found=found,
        remedy="install the version of this command that the server runs",
    )
