"""The environment variables of Slipway in Airflow: what each may hold, and what holds where it holds something else.

A wrong value never switches anything off without a word. A schedule keeps its default, since a DAG that cannot be
imported, or that has no schedule, does nothing at all; what could delete or give more rights keeps to the safe side;
what has no safe default is used as it is, and fails where it is used. In each case `problems` names the variable: the
pages, the command line and, by `dags/slipway_settings.py`, Airflow's list of import errors show it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from slipway_core.errors import UserError
from slipway_core.identifiers import nearest
from slipway_core.operations.notices.routing import parse_rules

PREFIX = "SLIPWAY_"
_YES, _NO = "true", "false"
_PRESETS = frozenset({"@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"})
_CONNECTION = re.compile(r"[A-Za-z0-9_.\-]{1,250}")
_COMMIT = re.compile(r"[A-Za-z0-9_.+/\-]{1,100}")
_SHOWN = 80


@dataclass(frozen=True)
class _Setting:
    """What a variable may hold.

    :param check: raises ValueError, or UserError, where it holds something else.
    :param expected: in words.
    :param instead: what holds where it does.
    """

    check: Callable[[str], object]
    expected: str
    instead: str


@dataclass(frozen=True)
class Problem:
    """A variable that cannot be used as it is, and what to do about it, in one sentence."""

    variable: str
    sentence: str


def text_of(variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return what a variable holds, without spaces around it; "" where it is not set or blank."""
    return environment.get(variable, "").strip()


def schedule_of(variable: str, default: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a cron expression: the variable's, or the default where that can be none or fires never."""
    text = text_of(variable, environment)
    return text if text and _holds(_check_cron, text) else default


def is_true(variable: str, default: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Return a yes or no: the variable's, or the default where that is neither."""
    text = text_of(variable, environment).lower()
    return text == _YES if text in (_YES, _NO) else default


def folder_of(variable: str, default: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return a folder: the variable's, or the default where it is blank. It need not exist."""
    text = text_of(variable, environment)
    return Path(text) if text else default


def is_missing_folder(variable: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a variable names a folder that is not there: what lies in it is not known."""
    text = text_of(variable, environment)
    return bool(text) and not Path(text).is_dir()


def problems(environment: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """Return each variable that cannot be used as it is, and each whose name is nearly that of one."""
    found = [_problem(name, setting, environment) for name, setting in _SETTINGS.items()]
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in _KNOWN)
    for name in unknown:
        near = nearest(name.removeprefix(PREFIX), (one.removeprefix(PREFIX) for one in _SETTINGS))
        if near is not None and f"{PREFIX}{near}" not in environment:
            found.append(
                Problem(
                    name, f"{name[:_SHOWN]} is not a setting, and has no effect. Did you mean {PREFIX}{near}?"
                )
            )
    return tuple(one for one in found if one is not None)


def require_settings(environment: Mapping[str, str] = os.environ) -> None:
    """Return where every variable can be used.

    :raises UserError: it names each that cannot, with what holds instead.
    """
    wrong = problems(environment)
    if wrong:
        raise UserError(
            "some of Slipway's settings are invalid",
            found=" ".join(one.sentence for one in wrong),
            remedy="correct the environment of every Airflow component, and restart it",
        )


def _problem(name: str, setting: _Setting, environment: Mapping[str, str]) -> Problem | None:
    text = text_of(name, environment)
    if not text or _holds(setting.check, text):
        return None
    shown = repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
    return Problem(name, f"{name} is invalid: expected {setting.expected}, found {shown}. {setting.instead}")


def _holds(check: Callable[[str], object], text: str) -> bool:
    try:
        check(text)
    except (ValueError, UserError):
        return False
    return True


def _check_cron(text: str) -> None:
    from croniter import croniter
    from croniter.croniter import CroniterError

    if text in _PRESETS:
        return
    if len(text.split()) != 5:
        raise ValueError("five fields")
    try:
        # One that is valid and names no day that comes, such as 31 February, would switch it off as well.
        croniter(text, datetime.now(UTC)).get_next()
    except (CroniterError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError("not a cron expression") from error


def _check_bool(text: str) -> None:
    if text.lower() not in (_YES, _NO):
        raise ValueError("neither yes nor no")


def _check_url(text: str) -> None:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.path.strip("/"):
        raise ValueError("not the address of a queue")
    _ = parts.port


def _check_folder(text: str) -> None:
    if not Path(text).is_dir():
        raise ValueError("no folder")


def _matches(pattern: re.Pattern[str]) -> Callable[[str], object]:
    def check(text: str) -> None:
        if not pattern.fullmatch(text):
            raise ValueError("in another form")

    return check


def _cron(default: str) -> _Setting:
    return _Setting(
        _check_cron,
        "a cron expression with five fields that fires",
        f"The schedule is the default, {default}.",
    )


_SETTINGS: Mapping[str, _Setting] = {
    "SLIPWAY_SWEEP_CRON": _cron("every 10 minutes"),
    "SLIPWAY_GC_CRON": _cron("Sundays, 03:00"),
    "SLIPWAY_FLEET_WATCH_CRON": _cron("every 5 minutes"),
    "SLIPWAY_REGISTRY_SYNC_CRON": _cron("every 5 minutes"),
    "SLIPWAY_REVALIDATION_CRON": _cron("each day, 05:00"),
    "SLIPWAY_SCHEDULES_CRON": _cron("every 10 minutes"),
    "SLIPWAY_DOCTOR_CRON": _cron("each day, 04:30"),
    "SLIPWAY_GC_DRY_RUN": _Setting(_check_bool, "true or false", "Runs delete nothing."),
    "SLIPWAY_GC_AWS_CONN_ID": _Setting(
        _matches(_CONNECTION),
        "the name of a connection",
        "Runs of repository_gc fail; they use no other permissions.",
    ),
    "SLIPWAY_INTAKE_QUEUE_URL": _Setting(
        _check_url, "the address of a queue", "Events start nothing; the scheduled scan finds uploads."
    ),
    "SLIPWAY_RELEASES_DIR": _Setting(
        _check_folder, "an existing folder", "No model has a release file, so no release starts."
    ),
    "SLIPWAY_FLEETS_DIR": _Setting(_check_folder, "an existing folder", "No fleet is known."),
    "SLIPWAY_NOTIFY": _Setting(
        lambda text: parse_rules(text, "SLIPWAY_NOTIFY"),
        'JSON such as [{"on": ["rolled_back"], "to": "slack_default"}]',
        "Models whose release file has no `notify` send no notices.",
    ),
    "SLIPWAY_COMMIT": _Setting(_matches(_COMMIT), "the name of a commit", "Manifests still contain it."),
}
# Those of other programs: the sandbox, the command line, the compose file, pods.
_KNOWN = frozenset(
    {
        *_SETTINGS,
        *(
            f"{PREFIX}{name}"
            for name in (
                "URL", "USER", "PASSWORD", "PASSWORD_FILE", "TOKEN_FILE", "CA_FILE", "TIMEOUT_S", "PROFILE", "BUCKET",
                "AIRFLOW_URL", "BASE_URL", "SANDBOX", "SANDBOX_ROOT", "IMAGES_DIR", "ADMIN_USER", "ADMIN_PASSWORD",
            )
        ),
    }
)  # fmt: skip
