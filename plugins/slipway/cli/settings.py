"""Which server, and who asks it: from flags, else the environment, else a file."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.cli.failures import CommandError, ExitCode
from slipway_airflow_api.access import Access
from slipway_core.identifiers import nearest

SANDBOX_FILE = Path("run") / "cli.toml"
"""Below a sandbox's folder: what `make up` writes for this command."""
SANDBOX_FOLDER = ".sandbox"
SANDBOX_VARIABLE = "SLIPWAY_SANDBOX_ROOT"
DEFAULT_TIMEOUT_S = 30.0
_LONGEST_TIMEOUT_S = 3600.0
_SECRET_LIMIT_BYTES = 64 * 2**10
_SECRETS = ("password", "password_file", "token_file")
STORE_KEYS = ("bucket", "endpoint_url", "region", "access_key_id", "secret_access_key")
VARIABLES = {
    "airflow_url": "SLIPWAY_AIRFLOW_URL",
    "user": "SLIPWAY_USER",
    "password": "SLIPWAY_PASSWORD",
    "password_file": "SLIPWAY_PASSWORD_FILE",
    "token_file": "SLIPWAY_TOKEN_FILE",
    "ca_file": "SLIPWAY_CA_FILE",
    "timeout_s": "SLIPWAY_TIMEOUT_S",
}
KEYS = tuple(VARIABLES)


@dataclass(frozen=True)
class Flags:
    """What the command line says; None: nothing."""

    url: str | None = None
    user: str | None = None
    profile: str | None = None


@dataclass(frozen=True)
class Settings:
    """Where Airflow is and who asks.

    :param origin: where the address is from, for messages.
    :param store: the bucket and how to reach it, of a sandbox; empty: as boto3 finds it.
    :param is_sandbox: `make up` has written them.
    """

    access: Access
    origin: str
    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_sandbox: bool = False


def load_settings(flags: Flags, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings that hold; a password is never sent to another server than the one it was written for.

    :raises CommandError: there are none, or they cannot be right.
    """
    chosen = _from_file(flags.profile or environment.get("SLIPWAY_PROFILE") or "", environment)
    given = {key: environment[name] for key, name in VARIABLES.items() if environment.get(name)}
    if "airflow_url" in given:
        chosen = _redirected(chosen, given["airflow_url"], VARIABLES["airflow_url"], given)
    else:
        chosen = _with(chosen, given)
    if flags.url:
        chosen = _redirected(chosen, flags.url, "--url", {})
    if flags.user:
        chosen = _with(chosen, {"user": flags.user})
    if not chosen.values.get("airflow_url"):
        raise CommandError(
            "no Airflow address is configured",
            code=ExitCode.USAGE,
            expected=f"an address from --url, {VARIABLES['airflow_url']}, {config_file(environment)}, or a sandbox "
            "started by `make up` in this folder or above it",
            found="none",
            remedy=f"export {VARIABLES['airflow_url']}=https://airflow.example.com, and SLIPWAY_USER and "
            "SLIPWAY_PASSWORD_FILE; or `make up` for a sandbox",
        )
    return _settings_of(chosen)


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the configuration file of this person lies."""
    home = environment.get("XDG_CONFIG_HOME") or ""
    base = (
        Path(home)
        if Path(home).is_absolute()
        else Path(environment.get("HOME") or "~").expanduser() / ".config"
    )
    return base / "slipway" / "config.toml"


def sandbox_file(environment: Mapping[str, str] = os.environ, start: Path | None = None) -> Path | None:
    """Return the file of the sandbox of this folder, or of one above it; None: there is none.

    :param start: the folder; None: where the command runs.
    """
    if named := environment.get(SANDBOX_VARIABLE):
        return Path(named) / SANDBOX_FILE
    here = start or Path.cwd()
    for folder in (here, *here.parents):
        if (path := folder / SANDBOX_FOLDER / SANDBOX_FILE).is_file():
            return path
    return None


@dataclass(frozen=True)
class _Chosen:
    """Values by key, and where the address is from."""

    values: Mapping[str, Any]
    origin: str
    store: Mapping[str, str] = field(default_factory=dict)
    is_sandbox: bool = False


def _with(chosen: _Chosen, more: Mapping[str, Any]) -> _Chosen:
    """Return the values with others over them. One secret replaces the others: of two, nobody knows which counts."""
    kept = chosen.values
    if any(key in more for key in _SECRETS):
        kept = {key: value for key, value in kept.items() if key not in _SECRETS}
    return _Chosen({**kept, **more}, chosen.origin, chosen.store, chosen.is_sandbox)


def _redirected(chosen: _Chosen, url: str, origin: str, more: Mapping[str, Any]) -> _Chosen:
    """Return the values with another address, without what was written for the one before."""
    if _same_server(chosen.values.get("airflow_url"), url):
        return _with(chosen, more)
    return _Chosen({**more, "airflow_url": url}, origin)


def _same_server(one: object, other: str) -> bool:
    return isinstance(one, str) and one.rstrip("/") == other.rstrip("/")


def _from_file(profile: str, environment: Mapping[str, str]) -> _Chosen:
    path = config_file(environment)
    if path.is_file() and profile != "sandbox":
        document = _read_toml(path)
        profiles = document.pop("profiles", {})
        if profile:
            if not isinstance(profiles, dict) or not isinstance(profiles.get(profile), dict):
                raise _wrong(
                    path,
                    f"there is no profile {profile!r}{_near(profile, profiles)}",
                    f"[profiles.{profile}]",
                    _names(profiles),
                )
            return _checked(path, profiles[profile], f"the profile {profile} of {path}")
        if document:
            return _checked(path, document, str(path))
    elif profile not in ("", "sandbox"):
        raise _wrong(path, f"there is no profile {profile!r}", f"[profiles.{profile}]", "no such file")
    sandbox = sandbox_file(environment)
    if sandbox is None:
        return _Chosen({}, "")
    document = _read_toml(sandbox)
    store = document.pop("store", {})
    checked = _checked(sandbox, document, f"the sandbox at {sandbox.parents[1]}")
    return _Chosen(checked.values, checked.origin, _store_of(sandbox, store), is_sandbox=True)


def _store_of(path: Path, store: object) -> dict[str, str]:
    if not isinstance(store, dict) or not all(isinstance(value, str) for value in store.values()):
        raise _wrong(path, "[store] is invalid", ", ".join(STORE_KEYS), "another form")
    return {key: store[key] for key in STORE_KEYS if key in store}


def _near(profile: str, profiles: object) -> str:
    near = nearest(profile, map(str, profiles)) if isinstance(profiles, dict) else None
    return "" if near is None else f" (did you mean {near}?)"


def _names(profiles: object) -> str:
    return ", ".join(sorted(map(str, profiles))) if isinstance(profiles, dict) and profiles else "none"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        _require_own(path)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, "it cannot be read", "a readable file", str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise _wrong(path, "it is not valid TOML", "TOML", str(error)) from error


def _require_own(path: Path) -> None:
    """Require that nobody else can write the file: who writes it says where the password goes."""
    facts = path.stat()
    mode = stat.S_IMODE(facts.st_mode)
    if facts.st_uid not in (os.getuid(), 0) or mode & 0o022:
        raise CommandError(
            f"{path} is writable by others, but it decides where your password is sent",
            code=ExitCode.USAGE,
            expected="your own file, writable only by you",
            found=f"owner {facts.st_uid}, mode {mode:03o}",
            remedy=f"chmod 600 {path}",
        )


def _checked(path: Path, values: Mapping[str, Any], origin: str) -> _Chosen:
    for key, value in values.items():
        if key not in KEYS:
            near = nearest(key, KEYS)
            raise _wrong(
                path, f"there is no key {key!r}", ", ".join(KEYS), f"did you mean {near}?" if near else ""
            )
        number = key == "timeout_s"
        if isinstance(value, bool) or not isinstance(value, (int, float) if number else str):
            raise _wrong(
                path, f"{key} is invalid", "a number" if number else "a text", repr(type(value).__name__)
            )
    if "password" in values and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise CommandError(
            f"{path} holds a password and is readable by others",
            code=ExitCode.USAGE,
            expected="mode 600",
            found=f"mode {stat.S_IMODE(path.stat().st_mode):03o}",
            remedy=f"chmod 600 {path}",
        )
    return _Chosen(values, origin)


def _settings_of(chosen: _Chosen) -> Settings:
    values = chosen.values
    token = _secret(values.get("token_file"), "token_file")
    password = _secret(values.get("password_file"), "password_file") or str(values.get("password", ""))
    if not token and not (values.get("user") and password):
        raise CommandError(
            f"no user or token is configured for {values['airflow_url']}",
            code=ExitCode.USAGE,
            expected="a user and a password, or a token",
            found=f"the address from {chosen.origin}: the password is never sent to any other server",
            remedy="set SLIPWAY_USER and SLIPWAY_PASSWORD_FILE, or SLIPWAY_TOKEN_FILE",
        )
    if_silent = "make up" if chosen.is_sandbox else f"check the address, which comes from {chosen.origin}"
    access = Access(
        base_url=str(values["airflow_url"]),
        user=str(values.get("user", "")),
        password=password,
        token=token,
        ca_file=Path(values["ca_file"]).expanduser() if values.get("ca_file") else None,
        timeout_s=_timeout(values.get("timeout_s", DEFAULT_TIMEOUT_S)),
        if_silent=if_silent,
    )
    return Settings(access, chosen.origin, chosen.store, chosen.is_sandbox)


def _secret(name: object, key: str) -> str:
    if not name:
        return ""
    path = Path(str(name)).expanduser()
    try:
        if path.stat().st_size > _SECRET_LIMIT_BYTES:
            raise _wrong(
                path, f"{key} is too large for a secret", f"{_SECRET_LIMIT_BYTES} bytes at most", "more"
            )
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise _wrong(path, f"the file that {key} names cannot be read", "a readable file", reason) from None


def _timeout(value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_TIMEOUT_S:
        raise CommandError(
            "timeout_s is invalid",
            code=ExitCode.USAGE,
            expected=f"seconds: more than 0 and at most {_LONGEST_TIMEOUT_S:g}",
            found=repr(value),
            remedy=f"correct timeout_s, or unset {VARIABLES['timeout_s']}",
        )
    return seconds


def _wrong(path: Path, what: str, expected: str, found: str) -> CommandError:
    return CommandError(
        f"{path}: {what}",
        code=ExitCode.USAGE,
        expected=expected,
        found=found or "another one",
        remedy="correct the file; docs/cli.md has an example",
    )
