"""The forms of the workflows: what they take, what they refuse before a run exists."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.dag import DAG
from airflow.sdk.exceptions import ParamValidationError

from slipway_core.identifiers import list_models
from slipway_core.spec.run_overrides import (
    FREEZE_PARAMETERS,
    PAUSE_PARAMETERS,
    REJECTION_PARAMETERS,
    RELEASE_PARAMETERS,
)
from tests.support.dags.workflows import FREEZE, MINIMAL, PAUSE, REJECTION, RELEASE, ROOT, fill_in

# --- the form ---


def test_models_are_a_drop_down_of_the_release_files(release: DAG) -> None:
    """The form offers exactly the models that have a release file."""
    models = list_models(ROOT / "include" / "releases")
    assert models
    assert release.params.get_param("model").schema["enum"] == models


def test_fields_explain_themselves(release: DAG) -> None:
    """Every field of the form has a title and a description."""
    for name in release.params:
        param = release.params.get_param(name)
        assert param.schema["title"], name
        assert param.description or param.schema["description_md"], name


def test_model_and_version_lead_to_the_page_that_knows_them(release: DAG) -> None:
    """The form is made when the DAG file is read, without the object store; the plugin's page knows what there is."""
    for name in ("model", "version"):
        param = release.params.get_param(name)
        assert param.schema["description_md"].endswith("/slipway/)")
        assert param.description is None, "Airflow would show it in place of the link"


GOOD_FORMS: list[dict[str, Any]] = [
    MINIMAL,
    {**MINIMAL, "steps": [{"weight": 5, "bake_s": 60}, {"weight": 50, "bake_s": 60}]},
    {**MINIMAL, "steps": None, "window_s": 5, "wait_for_approval": True, "force": True, "reason": "again"},
    {**MINIMAL, "wait_for_approval": False, "steps": []},
]


@pytest.mark.parametrize("form", GOOD_FORMS)
def test_form_takes(release: DAG, form: dict[str, Any]) -> None:
    """Model and version are enough; the canary may be changed for one run."""
    fill_in(release, form)


BAD_FORMS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no model": {"version": 2},
    "no version": {"model": "digits"},
    "unknown model": {**MINIMAL, "model": "no-such-model"},
    "model that climbs": {**MINIMAL, "model": "../digits"},
    "model with a slash": {**MINIMAL, "model": "digits/2"},
    "upper case": {**MINIMAL, "model": "Digits"},
    "model null": {**MINIMAL, "model": None},
    "version null": {**MINIMAL, "version": None},
    "version as text": {**MINIMAL, "version": "2"},
    "version zero": {**MINIMAL, "version": 0},
    "version negative": {**MINIMAL, "version": -1},
    "version a fraction": {**MINIMAL, "version": 1.5},
    "version true": {**MINIMAL, "version": True},
    "steps no list": {**MINIMAL, "steps": 5},
    "steps plain numbers": {**MINIMAL, "steps": [5, 50]},
    "weight 0": {**MINIMAL, "steps": [{"weight": 0, "bake_s": 60}]},
    "weight 100": {**MINIMAL, "steps": [{"weight": 100, "bake_s": 60}]},
    "no bake": {**MINIMAL, "steps": [{"weight": 5}]},
    "bake 0": {**MINIMAL, "steps": [{"weight": 5, "bake_s": 0}]},
    "a typo in a step": {**MINIMAL, "steps": [{"weight": 5, "bake_s": 60, "bakes": 1}]},
    "window 0": {**MINIMAL, "window_s": 0},
    "window as text": {**MINIMAL, "window_s": "10"},
    "approval as text": {**MINIMAL, "wait_for_approval": "yes"},
    "force as text": {**MINIMAL, "force": "yes"},
    "reason too long": {**MINIMAL, "reason": "x" * 501},
}


@pytest.mark.parametrize("form", BAD_FORMS.values(), ids=BAD_FORMS)
def test_form_rejects(release: DAG, form: dict[str, Any]) -> None:
    """What makes no sense is rejected by the form itself, before a run exists."""
    with pytest.raises(ParamValidationError):
        fill_in(release, form)


def test_the_forms_take_what_their_operators_know(bag: DagBag) -> None:
    """What the operators refuse as unknown is what no form offers."""
    assert set(bag.dags[RELEASE].params) == set(RELEASE_PARAMETERS)
    assert set(bag.dags[PAUSE].params) == set(PAUSE_PARAMETERS)
    assert set(bag.dags[REJECTION].params) == set(REJECTION_PARAMETERS)
    assert set(bag.dags[FREEZE].params) == set(FREEZE_PARAMETERS)


def test_a_pause_is_one_task_with_two_answers(bag: DagBag) -> None:
    """Pause or resume, nothing else."""
    dag = bag.dags[PAUSE]
    assert dag.task_ids == ["pause"]
    fill_in(dag, {"model": "digits", "action": "resume"})
    with pytest.raises(ParamValidationError):
        fill_in(dag, {"model": "digits", "action": "stop"})


def test_a_rejection_names_a_version_and_a_reason(bag: DagBag) -> None:
    """Reject or unreject, nothing else, and never without a word."""
    dag = bag.dags[REJECTION]
    assert dag.task_ids == ["write", "announce"]
    form = {**MINIMAL, "reason": "answers were wrong"}
    fill_in(dag, form)
    fill_in(dag, {**form, "action": "unreject"})
    for bad in (MINIMAL, {**form, "reason": ""}, {**form, "action": "delete"}, {**form, "version": 0}):
        with pytest.raises(ParamValidationError):
            fill_in(dag, bad)


def test_a_freeze_is_one_task_with_three_acts(bag: DagBag) -> None:
    """Freeze, thaw or override, of one model or of every one, and never without a word."""
    dag = bag.dags[FREEZE]
    assert dag.task_ids == ["write"]
    form: dict[str, Any] = {"reason": "holidays", "until": "2027-01-02T08:00:00+01:00"}
    fill_in(dag, form)
    fill_in(dag, {"reason": "it is over", "action": "thaw", "model": "digits"})
    fill_in(dag, {"reason": "urgent", "action": "override", "model": "digits", "version": 2})
    bad_forms: list[dict[str, Any]] = [
        {},
        {**form, "action": "stop"},
        {**form, "model": "no-such-model"},
        {**form, "until": "soon"},
    ]
    for bad in bad_forms:
        with pytest.raises(ParamValidationError):
            fill_in(dag, bad)
