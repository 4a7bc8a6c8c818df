"""Pages from the Jinja2 templates beside this file: every value is escaped, and a missing one is an error."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from airflow.api_fastapi.app import get_cookie_path
from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from slipway import workflows
from slipway.web import wording
from slipway.web.deployment_warnings import deployment_warnings
from slipway.web.health.parts import health_now
from slipway.web.static_files import static_files
from slipway_core.record.stage_names import stage_name
from slipway_core.written_numbers import counted, number

_TEMPLATES = Path(__file__).with_name("templates")


def render(request: Request, template: str, /, *, status: int = 200, **values: object) -> HTMLResponse:
    """Return the page that a template makes of `values`.

    Every template is given `root` (the address of this application, without a slash at its end), `airflow` (that of
    Airflow, with one), `person` (who is signed in, or ""), `health` (which parts answer; None for a stranger), `now`,
    `static(name)`, the address of a file, and `warnings` (what is wrong with the deployment; nothing for a stranger).

    :raises TemplateError: a value that the template expects is missing.
    """
    root = request.scope.get("root_path", "")

    def static(name: str) -> str:
        return f"{root}/static/{quote(name)}?v={static_files()[name].digest}"

    body = (
        environment()
        .get_template(template)
        .render(
            **values,
            status=status,
            root=root,
            airflow=get_cookie_path(),
            person=getattr(request.state, "slipway_person", ""),
            health=health_now() if hasattr(request.state, "slipway_person") else None,
            now=datetime.now(UTC),
            static=static,
            warnings=deployment_warnings() if hasattr(request.state, "slipway_person") else (),
        )
    )
    return HTMLResponse(body, status)


def path_below_mount(request: Request) -> str:
    """Return the request's path as this application's routes have it, wherever it is mounted."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "age": wording.age,
        "ago": wording.ago,
        "amount": wording.amount,
        "counted": counted,
        "duration": wording.duration,
        "in_time": wording.in_time,
        "number": number,
        "percent": wording.percent,
        "segment": lambda text: quote(str(text), safe=""),
        "size": wording.size,
        "stage": stage_name,
        "utc": wording.utc,
        "iso": wording.iso,
    }
    made.globals["dags"] = workflows
    return made
