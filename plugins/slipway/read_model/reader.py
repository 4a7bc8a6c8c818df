"""The read model as pages ask for it, in Airflow's API server.

Nothing here blocks longer than its limits, however the object store behaves: what is known is shown with its age
(`known_*` says so), and what was never read is an error of our own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.answers import GREATEST_AGE_S, Answers, Known, Patience
from slipway.read_model.catalogue import Catalogue, Shown
from slipway.read_model.landings import Landings
from slipway.read_model.live_reader import read_live
from slipway.read_model.model_context import files_are_gone
from slipway.read_model.store_health import StoreHealth
from slipway.release_record.record_reader import RecordReader
from slipway_core.bucket_layout import MODEL_VIEWS_PREFIX, evidence_prefix
from slipway_core.errors import InputMissingError, TransientError, UnknownModelError
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.read_model.documents import FreezeLine, ModelDocument, Unreadable
from slipway_core.read_model.landed import LandedProblem, Needed
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.release_view import ReleaseView, release_view

ANSWER_LIMIT_S = 2.0
"""Of one request, for the store that a `ReadModel` is given."""
SLOTS = 8
"""Threads that may wait for the store at once, of one `ReadModel`."""
EVIDENCE_LIMIT = 1000
_ALL = Patience(fresh_s=3.0, old_s=GREATEST_AGE_S, limit_s=3.0)
_MODEL = Patience(fresh_s=3.0, old_s=GREATEST_AGE_S, limit_s=3.0)
_LANDED = Patience(fresh_s=5.0, old_s=GREATEST_AGE_S, limit_s=3.0)
_RELEASE = Patience(fresh_s=2.0, old_s=5.0, limit_s=3.0)
_LIVE = Patience(fresh_s=1.0, old_s=3.0, limit_s=2.0)
ALL = ""
"""The one question about all models."""
_RELEASES_KEPT, _READERS_KEPT = 200, 50


class ReadModel:
    """What is known of models and releases. It may be used by many threads; a process has one for a bucket.

    :param store: with `ANSWER_LIMIT_S` as the limit to its answers.
    :param needed: what a model's release file asks for, for what has landed; see `Landings`.
    """

    def __init__(self, store: ModelStoreHook, needed: Callable[[str], Needed] = lambda _: Needed()) -> None:
        self._store = store
        self._catalogue = Catalogue(store)
        slots = threading.BoundedSemaphore(SLOTS)
        self.health = health = StoreHealth(lambda: store.entries(MODEL_VIEWS_PREFIX, most=1))
        """Whether the store answers, by these very reads."""
        self._all: Answers[str, Shown] = Answers(
            lambda _: self._catalogue.refresh(), _ALL, slots, health=health
        )
        self._models: Answers[str, ModelDocument | Unreadable] = Answers(
            self._look_at, _MODEL, slots, health=health
        )
        self._releases: Answers[tuple[str, int], ReleaseView] = Answers(
            lambda asked: self._read_release(*asked), _RELEASE, slots, most=_RELEASES_KEPT, health=health
        )
        self._live: Answers[str, LiveDocument | None] = Answers(
            lambda model: read_live(store, model), _LIVE, slots, health=health
        )
        self._landings = Landings(store, needed)
        self._landed: Answers[str, tuple[LandedProblem, ...]] = Answers(
            self._read_landed, _LANDED, slots, health=health
        )
        self._records: dict[tuple[str, int], RecordReader] = {}

    # --- what pages ask ---

    def models(self) -> Mapping[str, ModelDocument | Unreadable]:
        """Return every model that has a record, by its name.

        :raises SlipwayError: nothing is known yet, and the store does not answer.
        """
        return self.known_models().value.models

    def model(self, name: str) -> ModelDocument:
        """Return the document of a model.

        :raises UnknownModelError: nothing is recorded of it.
        :raises SlipwayError: nothing is known of it yet, and the store does not answer; or it cannot be shown.
        """
        return self.known_model(name).value

    def release(self, model: str, version: int) -> ReleaseView:
        """Return a version and its newest attempt, from its record.

        :raises InputMissingError: it has no record.
        :raises SlipwayError: it is not known yet, and the store does not answer; or its record cannot be right.
        """
        return self.known_release(model, version).value

    def live(self, model: str) -> LiveDocument | None:
        """Return what the watch of the model's canary wrote last; None where there is nothing.

        It may be of a release that is over: `release_id` and `written_at` tell.

        :raises SlipwayError: it is not known yet, and the store does not answer.
        """
        return self.known_live(model).value

    def ask_in_background(self) -> None:
        """Have the documents of all models read soon, and wait for nothing: so an idle page knows whether the store
        answers.
        """
        self._all.ask(ALL)

    def freezes(self) -> tuple[FreezeLine, ...]:
        """Return the freezes of every model at once; a model's own are in its document."""
        return self.known_models().value.freezes

    # --- the same, with when it was read and what is wrong ---

    def known_models(self) -> Known[Shown]:
        """Return what `models` and `freezes` return."""
        return self._all.get(ALL)

    def known_model(self, name: str, *, most_age_s: float | None = None) -> Known[ModelDocument]:
        """Return what `model` returns.

        :param most_age_s: what is older counts as not known; None: it is returned, with its age.
        """
        known = self._models.get(validate_model_name(name), most_age_s=most_age_s)
        if isinstance(known.value, ModelDocument):
            return Known(known.value, known.read_at, known.problem)
        # Not that it is absent: soon it may be there.
        raise TransientError(
            f"the model {name!r} cannot be shown",
            found=known.value.reason,
            remedy="try again in a minute",
        )

    def known_release(
        self, model: str, version: int, *, most_age_s: float | None = None
    ) -> Known[ReleaseView]:
        """Return what `release` returns; `most_age_s` as for `known_model`."""
        asked = (validate_model_name(model), parse_version(version))
        return self._releases.get(asked, most_age_s=most_age_s)

    def known_live(self, model: str, *, most_age_s: float | None = None) -> Known[LiveDocument | None]:
        """Return what `live` returns; `most_age_s` as for `known_model`."""
        return self._live.get(validate_model_name(model), most_age_s=most_age_s)

    def known_landed(
        self, model: str = ALL, *, most_age_s: float | None = None
    ) -> Known[tuple[LandedProblem, ...]]:
        """Return what of a model, or of every one, has landed and starts nothing; `most_age_s` as for `known_model`."""
        return self._landed.get(validate_model_name(model) if model != ALL else ALL, most_age_s=most_age_s)

    # --- how the store is asked ---

    def _read_landed(self, model: str) -> tuple[LandedProblem, ...]:
        if model == ALL:
            self.known_models()  # without the documents nobody knows what the records tell
            return self._landings.of_all(self._catalogue.document)
        document = self._catalogue.document(model)
        if document is None:
            found = self._catalogue.look_at(model)
            document = found if isinstance(found, ModelDocument) else None
        return self._landings.of_model(model, document)

    def _look_at(self, name: str) -> ModelDocument | Unreadable:
        found = self._catalogue.look_at(name)
        if found is None:
            raise UnknownModelError(
                f"nothing is known about the model {name!r}",
                expected="a model with a released or rejected version",
                found="no record",
                remedy="check the name; a model appears with its first release",
            )
        return found

    def _read_release(self, model: str, version: int) -> ReleaseView:
        reader = self._records.pop((model, version), None) or RecordReader(self._store, model, version)
        events = reader.events()
        if not events:
            raise InputMissingError(
                f"version {version} of {model!r} has no record",
                expected="a version that was released or rejected",
                found="none",
                remedy=f"see all versions of {model}",
            )
        self._records[(model, version)] = reader
        while len(self._records) > _READERS_KEPT:
            self._records.pop(next(iter(self._records)), None)
        line = self._catalogue.line(model, version)
        view = release_view(
            events,
            pinned=line is not None and line.pinned,
            files_gone=files_are_gone(self._store, model, version),
        )
        prefix = evidence_prefix(model, version, view.line.release_id)
        entries = self._store.entries(prefix, most=EVIDENCE_LIMIT)
        return view.model_copy(
            update={"evidence_prefix": prefix, "evidence": tuple(entry.key for entry in entries)}
        )
