"""Where the plugin's pages are, as links from Airflow, its logs and its forms. Cheap to import.

Names come from XComs, from the object store and from forms: what cannot be a page's name makes no link.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import quote

from slipway_core.errors import SlipwayError
from slipway_core.identifiers import parse_version, run_folder, validate_model_name

PREFIX = "/slipway"
_NAME_LIMIT = 500
# Of an evidence file: folders and names as the gates write them.
_EVIDENCE_NAME = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9._~-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_BASE_URL = re.compile(r"https?://[^\s\"'<>\\]+")


def pages_url() -> str:
    """Return the address under which the pages are: that of Airflow's configuration `[api] base_url`, and `/slipway`.

    Without one it is a path, which the browser completes.
    """
    # Airflow reads its configuration when this is imported: only who needs an address pays for it.
    from airflow.configuration import conf

    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    return f"{base if _BASE_URL.fullmatch(base) else ''}{PREFIX}"


def overview_page() -> str:
    """Return the address of the page with every model."""
    return f"{pages_url()}/"


def approvals_page() -> str:
    """Return the address of the questions that wait for a person."""
    return f"{pages_url()}/approvals"


def calendar_page() -> str:
    """Return the address of the freezes and release windows."""
    return f"{pages_url()}/calendar"


def model_page(model: object) -> str:
    """Return the address of a model's page; "" where that is no model's name."""
    try:
        return f"{pages_url()}/models/{validate_model_name(model)}"
    except SlipwayError:
        return ""


def release_page(model: object, version: object) -> str:
    """Return the address of the page of a version's release; "" where these name no version."""
    try:
        return f"{model_page(validate_model_name(model))}/versions/{parse_version(version)}"
    except SlipwayError:
        return ""


def evidence_page(model: object, version: object, name: object = "") -> str:
    """Return the address of a version's evidence; "" where these name none.

    :param name: below the version's evidence, such as `RUN/validation.html`; "": the list of all.
    """
    try:
        here = f"{pages_url()}/evidence/{validate_model_name(model)}/{parse_version(version)}"
    except SlipwayError:
        return ""
    if not name:
        return f"{here}/"
    if not isinstance(name, str) or len(name) > _NAME_LIMIT or not _EVIDENCE_NAME.fullmatch(name):
        return ""
    return f"{here}/{quote(name)}"


def report_page(kind: Literal["gc", "revalidation"], run: str, name: str) -> str:
    """Return the address of what a run of `repository_gc` or `model_revalidation` left; "" where there can be none.

    :param name: below the run's folder, such as `models/MODEL.html`.
    """
    is_name = len(name) <= _NAME_LIMIT and _EVIDENCE_NAME.fullmatch(name)
    return f"{pages_url()}/reports/{kind}/{run_folder(run)}/{name}" if run and is_name else ""
