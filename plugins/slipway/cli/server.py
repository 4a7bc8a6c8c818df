"""What the command reads of a server: the documents of the read model, by the project's JSON API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from slipway.cli.failures import CommandError
from slipway.cli.words import span
from slipway_airflow_api.errors import NotThereError
from slipway_airflow_api.session import Session
from slipway_core.errors import ServerUnavailableError, UserError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from slipway_core.doctor.report import DoctorReport
    from slipway_core.fleet.parity import Parity
    from slipway_core.read_model.documents import FreezeLine, ModelDocument
    from slipway_core.read_model.landed import Landed, LandedProblem
    from slipway_core.read_model.live import LiveDocument
    from slipway_core.read_model.release_view import ReleaseView
    from slipway_core.read_model.waiting import WaitingRun

API = "/slipway/api"
_BEING_REBUILT = "being rebuilt"
"""What the server says where a model's document is lost and is folded anew."""
NOTED_AGE_S = 3.0
"""What is older is said to be."""
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
        self.age_s: float | None = None
        """Age of the latest data, in seconds; None: the server does not say."""
        self.freezes: tuple[FreezeLine, ...] = ()
        """The freezes of all models at once, as `models` has read them."""
        self.waiting: tuple[WaitingRun, ...] = ()
        """Runs that no record knows yet, as `models` or `model` has read them: of every model, or of that one."""
        self.unusable: tuple[LandedProblem, ...] = ()
        """What has landed and starts nothing, read with them."""

    @property
    def age_note(self) -> str:
        """How old is what was read last, in words, and why; "" where it is as new as can be."""
        age_s = self.age_s or 0.0
        age = f"data is {span(age_s)} old" if age_s > NOTED_AGE_S else ""
        return ": ".join(filter(None, (age, self.problem)))

    def models(self) -> dict[str, ModelDocument | str]:
        """Return the document of each model, by name; a text says why a model's cannot be read."""
        from slipway_core.read_model.documents import FreezeLine, ModelDocument

        answer, found = self._json("/models"), dict[str, ModelDocument | str]()
        self._read_unrecorded(answer, "/models")
        self.freezes = tuple(_parsed(FreezeLine, one, "/models") for one in _list(answer.get("freezes")))
        for entry in _list(answer.get("models")):
            if "reason" in entry and "versions" not in entry:
                found[str(entry.get("model"))] = str(entry["reason"])
            else:
                document = _parsed(ModelDocument, entry, "/models")
                found[document.model] = document
        return found

    def model(self, name: str, *, most_age_s: float | None = None) -> ModelDocument:
        """Return what is known of a model.

        :param most_age_s: what is older counts as not known; None: it is returned, with its age.
        :raises NotKnownError: there is no record of it.
        """
        from slipway_core.read_model.documents import ModelDocument

        path = f"/models/{quote(name, safe='')}"
        try:
            answer = self._json(path, most_age_s)
            self._read_unrecorded(answer, path)
            return _parsed(ModelDocument, answer, path)
        except NotThereError as error:
            raise NotKnownError(
                f"there is no model {name!r}, or none of its versions has been released",
                expected="a model with a record",
                found=error.found,
                remedy=f"slipway list; or slipway release {name} VERSION",
            ) from None

    def landed(self, name: str) -> Landed:
        """Return what of a model has landed, as it is at this moment.

        :raises TransientError: that is unknown.
        """
        from slipway_core.read_model.landed import Landed

        path = f"/landed/{quote(name, safe='')}"
        return _parsed(Landed, self._json(path), path)

    def model_or_empty(self, name: str, now: datetime, *, most_age_s: float | None = None) -> ModelDocument:
        """Return what is known of a model; of one that was never released, a document without versions."""
        from slipway_core.read_model.documents import ModelDocument

        try:
            return self.model(name, most_age_s=most_age_s)
        except NotKnownError:
            self.waiting, self.unusable = (), ()
            return ModelDocument(model=name, written_at=now)

    def fleet(self, name: str) -> Parity:
        """Return what the servers of a fleet serve; Airflow asks them for this answer."""
        from slipway_core.fleet.parity import Parity

        path = f"/fleets/{quote(name, safe='')}"
        document = {key: value for key, value in self._json(path).items() if key != "agree"}
        return _parsed(Parity, document, path)

    def version(self, model: str, version: int, *, most_age_s: float | None = None) -> VersionDocuments:
        """Return what is known of a version, and of its canary; `most_age_s` as for `model`.

        :raises UnknownVersionError: there is no record of it.
        """
        from slipway_core.read_model.live import LiveDocument
        from slipway_core.read_model.release_view import ReleaseView

        path = f"/models/{quote(model, safe='')}/versions/{version}"
        try:
            document = self._json(path, most_age_s)
        except NotThereError as error:
            raise UnknownVersionError(
                f"{model} version {version} is unknown",
                expected="a version that was released, or that somebody tried to release",
                found=error.found,
                remedy=f"slipway get {model}",
            ) from None
        live = document.get("live")
        return VersionDocuments(
            _parsed(ReleaseView, document.get("release"), path),
            None if live is None else _parsed(LiveDocument, live, path),
        )

    def examined(self) -> DoctorReport:
        """Return what the last examination of the installation found; `age_s` is how long ago.

        :raises UserError: there was none, or the answer is not of this version.
        """
        from slipway_core.doctor.report import DoctorReport

        try:
            answer = self._json("/doctor")
        except NotThereError as error:
            raise UserError(
                "the installation was not examined yet",
                expected="a report of its daily examination",
                found=error.found,
                remedy="start the DAG installation_examination, or run `slipway doctor` in a worker",
            ) from None
        return _parsed(DoctorReport, {key: answer.get(key) for key in DoctorReport.model_fields}, "/doctor")

    def _read_unrecorded(self, answer: Mapping[str, Any], path: str) -> None:
        from slipway_core.read_model.landed import LandedProblem
        from slipway_core.read_model.waiting import WaitingRun

        self.waiting = tuple(_parsed(WaitingRun, one, path) for one in _list(answer.get("waiting")))
        self.unusable = tuple(_parsed(LandedProblem, one, path) for one in _list(answer.get("unusable")))

    def _json(self, path: str, most_age_s: float | None = None) -> dict[str, Any]:
        asked = "" if most_age_s is None else f"?most_age_s={most_age_s:g}"
        try:
            document = json.loads(self._get(f"{API}{path}{asked}"))
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._foreign(path)
        self.problem = str(document.get("problem") or "")
        warnings = document.get("warnings")
        self.warnings = tuple(map(str, warnings)) if isinstance(warnings, list) else self.warnings
        age_s = document.get("age_s")
        self.age_s = float(age_s) if isinstance(age_s, int | float) else None
        return document

    def _get(self, path: str) -> bytes:
        """Read a document; one that the server is making at this moment is soon there."""
        for _ in range(_MADE_SOON):
            try:
                return self._session.get(path)
            except ServerUnavailableError as error:
                if _BEING_REBUILT not in (error.found or ""):
                    raise
            self._sleep(1.0)
        return self._session.get(path)

    def _foreign(self, path: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"the server at {API}{path} is not Slipway",
            expected="a JSON document",
            found="something else",
            remedy="check that this Airflow has Slipway's plugin, and that the address is right",
        )


def _list(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _parsed(kind: type[Document], value: object, path: str) -> Document:
    from pydantic import ValidationError

    from slipway_core.documents.document_form import first_problem

    if not isinstance(value, Mapping):
        raise _strange(path, "no document")
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise _strange(path, first_problem(error)) from None


def _strange(path: str, found: str) -> UserError:
    return UserError(
        f"the answer to {API}{path} is unusable",
        expected="a document from this version of Slipway",
        found=found,
        remedy="install the same version of this command as the server's",
    )
