"""What the project's DAGs share: the folder of release files, fields of their forms, the arguments of `@dag`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param

import slipway_core
from slipway.deployment.settings import folder_of, is_missing_folder, schedule_of
from slipway.page_addresses import approvals_page, calendar_page, overview_page
from slipway_core.identifiers import list_models

# Which of the tasks that wait for a worker come first: those that take traffic back, then those that hold some.
WAY_BACK, ON_TRAFFIC = 1000, 100
# A task's own priority alone: by default the first tasks of a run would come first, and the way back last.
OWN_PRIORITY = "absolute"

RELEASES_VARIABLE = "SLIPWAY_RELEASES_DIR"
# A key at the beginning of a line, or within braces; that of a part may be indented.
_REGISTRY = re.compile(rb"""(?:^|[{,]\s*)["']?registry["']?\s*:""", re.MULTILINE)
_SCHEDULE = re.compile(rb"""(?:^\s*|[{,]\s*)["']?schedule["']?\s*:""", re.MULTILINE)


def releases_dir() -> Path:
    """Return the folder with the release files: `SLIPWAY_RELEASES_DIR`, or the project's own."""
    return folder_of(RELEASES_VARIABLE, Path(slipway_core.__file__).parents[1] / "releases")


def has_registry(folder: Path) -> bool:
    """Tell whether a release file in the folder may have a section `registry`; its text is searched, not parsed.

    One may have it, too, where the folder that `SLIPWAY_RELEASES_DIR` names is not there: nothing is known of it.
    """
    return _some_has(folder, _REGISTRY)


def has_schedule(folder: Path) -> bool:
    """Tell whether a release file in the folder may have a key `schedule`, as `has_registry` does of its section."""
    return _some_has(folder, _SCHEDULE)


def _some_has(folder: Path, key: re.Pattern[bytes]) -> bool:
    if is_missing_folder(RELEASES_VARIABLE):
        return True
    for model in list_models(folder):
        try:
            content = (folder / f"{model}.yaml").read_bytes()
        except OSError:
            continue
        if key.search(content):
            return True
    return False


def model_param() -> Param:
    """Return the field of a run's form in which one of the models is chosen."""
    return Param(
        type="string",
        enum=list_models(releases_dir()),
        title="Model",
        description_md=_described("One of the release files in include/releases/."),
    )


def model_or_all_param(without: str = "all models with a release file") -> Param:
    """Return the field of a run's form in which one of the models is chosen, or none.

    :param without: which models an empty field means.
    """
    return Param(
        None,
        type=["null", "string"],
        enum=[None, *list_models(releases_dir())],
        title="Model",
        description_md=_described(f"Empty: {without}."),
    )


def version_param(what: str, *, is_needed: bool = True, title: str = "Version") -> Param:
    """Return the field of a run's form in which a version is named.

    :param what: which version is meant.
    :param is_needed: whether the field may not be left empty.
    :param title: the field's name in the form.
    """
    empty: dict[str, Any] = {} if is_needed else {"default": None}
    return Param(
        **empty,
        type="integer" if is_needed else ["null", "integer"],
        minimum=1,
        title=title,
        description_md=_described(what),
    )


def reason_param(what: str, **given: Any) -> Param:
    """Return the field of a run's form in which the person says why; it cannot be left empty.

    :param what: who reads it.
    :param given: `default`, where there is one.
    """
    return Param(**given, type="string", minLength=3, maxLength=500, title="Reason", description=what)


def evidence_param() -> Param:
    """Return the field of a run's form in which the person names the page that was in front of them."""
    return Param(
        None,
        type=["null", "string"],
        maxLength=1000,
        title="Evidence",
        description="The page that shows why: its address or key in the bucket. Its digest is kept.",
    )


def cron(variable: str, default: str) -> CronTriggerTimetable:
    """Return a DAG's schedule: that of an environment variable, in UTC, or the default.

    The default holds, too, where the variable is no cron expression: `dags/slipway_settings.py` says so.
    """
    return CronTriggerTimetable(schedule_of(variable, default), timezone="UTC")


def header(doc: str | None, area: str, **task_defaults: Any) -> dict[str, Any]:
    """Return the arguments of `@dag` that every DAG of the project is given.

    :param doc: the DAG file's docstring, which is the DAG's page below the links to the pages of this plugin.
    :param area: the tag beside `slipway`.
    :param task_defaults: what every task of the DAG is given.
    """
    return {
        "doc_md": doc and f"{_links()}\n{doc}",
        "catchup": False,
        "tags": ["slipway", area],
        "default_args": {"owner": "slipway", **task_defaults},
    }


def act_header(doc: str | None, area: str, **task_defaults: Any) -> dict[str, Any]:
    """Return the arguments of `@dag` of a DAG that does one thing for a person: it has no schedule.

    :param doc: as that of `header`, and so are the others.
    """
    defaults = {"retries": 3, "retry_delay": timedelta(seconds=5), "execution_timeout": timedelta(minutes=5)}
    return {"schedule": None, **header(doc, area, **{**defaults, **task_defaults})}


def _links() -> str:
    """Return the line of links on a DAG's page."""
    pages = {
        "Models and versions": overview_page(),
        "Approvals": approvals_page(),
        "Calendar": calendar_page(),
    }
    return " · ".join(f"[{name}]({page})" for name, page in pages.items()) + "\n"


def _described(what: str) -> str:
    """Return the description of a field for which the plugin's page knows what there is: Airflow's form cannot know.

    Its fields are made when the DAG file is read, and that asks no object store. The form shows the Markdown only where
    there is no plain description.
    """
    return f"{what} [What exists, what is live and what is under way]({overview_page()})"
