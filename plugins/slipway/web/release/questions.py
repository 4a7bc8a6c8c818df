"""What waits for a person: the open questions of runs, as Airflow has them, with what there is to judge by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slipway.airflow_run import person_of_run
from slipway.web.acts.airflow_api import AirflowApi, AirflowRefusedError
from slipway.web.sources import Sources
from slipway.workflows import MODEL_RELEASE, MODEL_ROLLBACK, REPOSITORY_GC
from slipway_core.acts.act import APPROVE, REJECT
from slipway_core.acts.requests import Question
from slipway_core.errors import SlipwayError
from slipway_core.four_eyes import is_same_person
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.read_model.release_view import ReleaseView

QUESTIONS_LIMIT = 100
_WAITING = ("awaiting_input", "deferred", "running", "queued", "scheduled", "up_for_retry")
# Their operators take nobody's agreement to a run of their own, whatever the release file says.
_ALWAYS_BY_OTHER = (MODEL_ROLLBACK, REPOSITORY_GC)
_TEXT_LIMIT = 20_000


@dataclass(frozen=True)
class OpenQuestion:
    """A question that a run waits with.

    :param subject: what is asked, in a sentence.
    :param body: what the workflow shows, in Markdown.
    :param model: "" where it is about none.
    :param view: the release that it is about; None where it is about none, or nothing can be read of it.
    :param by_other: another person than who started the run must agree.
    :param old: why it may not be known now how the release stands; "": it is known.
    """

    question: Question
    subject: str
    body: str
    asked_at: datetime | None
    started_by: str
    reason: str
    model: str = ""
    version: int | None = None
    view: ReleaseView | None = None
    by_other: bool = False
    old: str = ""

    def refusal(self, person: str) -> str:
        """Return why this person may not agree, "" where nothing speaks against it; a person may always decline."""
        if self.by_other and is_same_person(person, self.started_by):
            return "You started this run, so another person must approve it. You can decline it."
        if self.old:
            return (
                f"The state of the release is currently unknown: {self.old.rstrip('.')}. You may decline it."
            )
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "dag_id": self.question.dag_id,
            "run_id": self.question.run_id,
            "task_id": self.question.task_id,
            "map_index": self.question.map_index,
            "subject": self.subject,
            "body": self.body,
            "asked_at": None if self.asked_at is None else self.asked_at.isoformat(),
            "started_by": self.started_by,
            "reason": self.reason,
            "model": self.model,
            "version": self.version,
            "by_other": self.by_other,
        }


async def open_questions(api: AirflowApi) -> list[dict[str, Any]]:
    """Return Airflow's open questions that are answered by yes or no, oldest first, of those that who asks may see.

    :raises AirflowRefusedError: Airflow does not let who asks see any.
    """
    params = {"response_received": "false", "limit": QUESTIONS_LIMIT, "order_by": "created_at"}
    answer = await api.get("dags", "~", "dagRuns", "~", "hitlDetails", params=params)
    return [
        one
        for one in answer.get("hitl_details", ())
        if one.get("options") == [APPROVE, REJECT] and one["task_instance"].get("state") in _WAITING
    ]


async def run_of(api: AirflowApi, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run that asks; {} where it is gone, or who asks may not see it."""
    task = detail["task_instance"]
    try:
        return await api.get("dags", str(task["dag_id"]), "dagRuns", str(task["dag_run_id"]))
    except AirflowRefusedError:
        return {}


def question_shown(sources: Sources, detail: Mapping[str, Any], run: Mapping[str, Any]) -> OpenQuestion:
    """Return a question with the release that it is about; what cannot be read is left out, and holds nobody up."""
    task = detail["task_instance"]
    question = Question(
        str(task["dag_id"]), str(task["dag_run_id"]), str(task["task_id"]), int(task.get("map_index", -1))
    )
    conf = run.get("conf") or {}
    model, version = _release_of(sources, question, conf)
    view, old = (None, "") if version is None else _view(sources, model, version, question.run_id)
    required = None if view is None else view.required
    return OpenQuestion(
        question,
        subject=str(detail.get("subject") or question.task_id)[:500],
        body=str(detail.get("body") or "")[:_TEXT_LIMIT],
        asked_at=_moment(detail.get("created_at")),
        started_by=person_of_run(run.get("triggering_user_name"), run.get("run_type")) or "",
        reason=str(conf.get("reason") or "")[:500],
        model=model,
        version=version,
        view=view,
        old=old,
        by_other=question.dag_id in _ALWAYS_BY_OTHER or (required is not None and required.by_other),
    )


def _release_of(sources: Sources, question: Question, conf: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return which version a run is about; of a way back, the version that is left."""
    try:
        model = validate_model_name(conf.get("model"))
    except SlipwayError:
        return "", None
    try:
        if question.dag_id == MODEL_RELEASE:
            return model, parse_version(conf.get("version"))
        release = sources.read_model.model(model).open_release
    except SlipwayError:
        return model, None
    return model, None if release is None or release.release_id != question.run_id else release.version


def _view(sources: Sources, model: str, version: int, run_id: str) -> tuple[ReleaseView | None, str]:
    """Return the release that a run is, and why it may be old; None where nothing can be read of it."""
    try:
        known = sources.read_model.known_release(model, version)
    except SlipwayError as error:
        return None, error.in_short()
    return (known.value, known.old) if known.value.line.release_id == run_id else (None, known.old)


def _moment(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None
