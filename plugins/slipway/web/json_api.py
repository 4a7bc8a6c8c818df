"""The JSON API: the read model's documents as they are, for programs. Who may see a page may read this."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from slipway.read_model.answers import Known
from slipway.read_model.reader import ALL
from slipway.web.deployment_warnings import deployment_warnings
from slipway.web.known_models import known_model, with_those_never_released
from slipway.web.landed import landed_versions
from slipway.web.sources import Read, Sources
from slipway.web.waiting_runs import known_waiting
from slipway_core.errors import SlipwayError
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.read_model.documents import ModelDocument, Unreadable

router = APIRouter(prefix="/api")

MostAge = Annotated[float | None, Query(ge=0, le=3600)]


@router.get("/models")
def models(sources: Read) -> dict[str, Any]:
    """Return the document of every model, also of those never released, and the freezes of all models at once."""
    known = sources.read_model.known_models()
    return {
        **_read(known),
        "models": [_document(one) for one in with_those_never_released(known.value.models).values()],
        "freezes": [one.model_dump(mode="json") for one in known.value.freezes],
        **_unrecorded(sources, ALL),
    }


@router.get("/models/{model}")
def model(sources: Read, model: str, most_age_s: MostAge = None) -> dict[str, Any]:
    """Return the document of a model, with its runs that wait and what is uploaded but cannot be released.

    With `most_age_s`, an older document is answered with 503.
    """
    known = known_model(sources, model, most_age_s=most_age_s)
    return {**_read(known), **known.value.model_dump(mode="json"), **_unrecorded(sources, model)}


@router.get("/models/{model}/versions/{version}")
def version(sources: Read, model: str, version: str, most_age_s: MostAge = None) -> dict[str, Any]:
    """Return the view of a version's newest attempt, and the live document of its canary while there is one."""
    number = parse_version(version)
    known = sources.read_model.known_release(validate_model_name(model), number, most_age_s=most_age_s)
    live = None
    if known.value.open_now is not None:
        live = sources.read_model.known_live(model, most_age_s=most_age_s).value
    is_its_own = live is not None and live.release_id == known.value.line.release_id
    return {
        **_read(known),
        "release": known.value.model_dump(mode="json"),
        "live": live.model_dump(mode="json") if live is not None and is_its_own else None,
    }


@router.get("/landed/{model}")
def landed(sources: Read, model: str) -> dict[str, Any]:
    """Return which versions of a model have landed, and how each of them stands: for forms."""
    return landed_versions(sources, validate_model_name(model)).model_dump(mode="json")


def _document(one: ModelDocument | Unreadable) -> dict[str, Any]:
    if isinstance(one, Unreadable):
        return {"model": one.model, "reason": one.reason}
    return one.model_dump(mode="json")


def _read(known: Known[Any]) -> dict[str, Any]:
    """Return when something was read, its age, why there is nothing newer ("": nothing is wrong), and warnings."""
    return {
        "read_at": known.read_at.isoformat(),
        "age_s": round(known.age_s, 1),
        "problem": known.problem,
        "warnings": list(deployment_warnings()),
    }


def _unrecorded(sources: Sources, model: str) -> dict[str, Any]:
    """Return what no record knows: runs that wait, and what has landed and cannot be released."""
    waiting = known_waiting()
    runs = () if waiting is None else waiting.value
    try:
        unusable = sources.read_model.known_landed(model).value
    except SlipwayError:
        unusable = ()
    return {
        "waiting": [one.model_dump(mode="json") for one in runs if model in (ALL, one.model)],
        "unusable": [one.model_dump(mode="json") for one in unusable],
    }
