"""The models that pages and the command show: those with a record, and those of which only a release file is there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from slipway.dag_header import releases_dir
from slipway.read_model.answers import Known
from slipway.web.sources import Sources
from slipway_core.errors import UnknownModelError
from slipway_core.identifiers import list_models, validate_model_name
from slipway_core.read_model.documents import ModelDocument, Unreadable


def with_those_never_released(
    models: Mapping[str, ModelDocument | Unreadable],
) -> dict[str, ModelDocument | Unreadable]:
    """Return the models, and those that have a release file but no record yet."""
    now = datetime.now(UTC)
    never = {name: ModelDocument(model=name, written_at=now) for name in list_models(releases_dir())}
    return {**never, **models}


def known_model(sources: Sources, name: str, *, most_age_s: float | None = None) -> Known[ModelDocument]:
    """Return the document of a model; one without versions where it was never released.

    :param most_age_s: what is older counts as not known; None: it is returned, with its age.
    :raises UnknownModelError: it has neither a record nor a release file, and nothing of it has landed.
    :raises TransientError: its document is being made again.
    """
    model = validate_model_name(name)
    try:
        return sources.read_model.known_model(model, most_age_s=most_age_s)
    except UnknownModelError:
        if model not in list_models(releases_dir()) and not sources.read_model.known_landed(model).value:
            raise
        now = datetime.now(UTC)
        return Known(ModelDocument(model=model, written_at=now), now)
