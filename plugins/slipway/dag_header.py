"""What the project's DAGs share: the folder of release files, the field for a model, the arguments of `@dag`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from airflow.sdk import Param

import include
from include.model_release.identifiers import list_models

# Which of the tasks that wait for a worker come first: those that take traffic back, then those that hold some.
WAY_BACK, ON_TRAFFIC = 1000, 100
# A task's own priority alone: by default the first tasks of a run would come first, and the way back last.
OWN_PRIORITY = "absolute"

# A key at the beginning of a line, or within braces.
_REGISTRY = re.compile(rb"""(?:^|[{,]\s*)["']?registry["']?\s*:""", re.MULTILINE)


def releases_dir() -> Path:
    """Return the folder with the release files: `SLIPWAY_RELEASES_DIR`, or the project's own."""
    return Path(os.environ.get("SLIPWAY_RELEASES_DIR", Path(include.__path__[0]) / "releases"))


def has_registry(folder: Path) -> bool:
    """Tell whether a release file in the folder may have a section `registry`; its text is searched, not parsed."""
    for model in list_models(folder):
        try:
            content = (folder / f"{model}.yaml").read_bytes()
        except OSError:
            continue
        if _REGISTRY.search(content):
            return True
    return False


def model_param() -> Param:
    """Return the field of a run's form in which one of the models is chosen."""
    return Param(
        type="string",
        enum=list_models(releases_dir()),
        title="Model",
        description="One of the release files in include/releases/.",
    )


def header(doc: str | None, area: str, **task_defaults: Any) -> dict[str, Any]:
    """Return the arguments of `@dag` that every DAG of the project is given.

    :param doc: the DAG file's docstring, which is the DAG's page.
    :param area: the tag beside `slipway`.
    :param task_defaults: what every task of the DAG is given.
    """
    return {
        "doc_md": doc,
        "catchup": False,
        "tags": ["slipway", area],
        "default_args": {"owner": "slipway", **task_defaults},
    }
