"""Whether the servers of a fleet serve the same: version, configuration and manifest of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict


class ServerReport(BaseModel):
    """What one server says that it serves.

    :param version: None: nothing.
    :param config_sha256: digest of the canonical form of its configuration, under the model's own name; empty if it
        serves nothing.
    :param manifest_sha256: digest of the manifest that it was told to serve; empty if it was never told.
    :param is_ready: whether the fleet's Service sends it requests; None: nobody knows.
    :param leftovers: models of other versions, or an alias on trial, that are loaded besides and nobody needs.
    :param problem: why it says nothing; empty if it does.
    """

    model_config = ConfigDict(frozen=True)

    server: str
    version: int | None = None
    config_sha256: str = ""
    manifest_sha256: str = ""
    is_ready: bool | None = None
    leftovers: tuple[str, ...] = ()
    problem: str = ""


class Parity(BaseModel):
    """The reports of all servers, and where they differ.

    :param version: what the fleet should serve, by its last release; None: nothing was released.
    :param open_release: a release that is under way, or was left half done, in words; empty: none is.
    """

    model_config = ConfigDict(frozen=True)

    fleet: str
    model: str
    version: int | None
    servers: tuple[ServerReport, ...]
    differences: tuple[str, ...]
    open_release: str = ""

    @property
    def agree(self) -> bool:
        """Return whether all servers serve the same, and what the fleet should serve."""
        return not self.differences

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Return what is loaded without need, in words; while a release is under way that is what it works on."""
        return tuple(
            f"{one.server} has {', '.join(one.leftovers)} loaded as well"
            for one in self.servers
            if one.leftovers
        )


def parity_of(
    fleet: str,
    model: str,
    version: int | None,
    reports: Sequence[ServerReport],
    *,
    manifest_sha256: str = "",
    open_release: str = "",
) -> Parity:
    """Compare the servers with each other, and with what the fleet should serve.

    :param manifest_sha256: digest of the manifest of that version; empty: nobody knows.
    :param open_release: as in `Parity`.
    """
    answering = [one for one in reports if not one.problem]
    differences = [f"{one.server}: {one.problem}" for one in reports if one.problem]
    if not reports:
        differences.append("the fleet has no server")
    if version is not None:
        differences += [
            f"{one.server} serves {_version(one.version)}, the fleet's version is {version}"
            for one in answering
            if one.version != version
        ]
    else:
        differences += _odd("version", [(one.server, _version(one.version)) for one in answering])
    same = [one for one in answering if version is None or one.version == version]
    differences += _odd("configuration", [(one.server, one.config_sha256) for one in same])
    if manifest_sha256:
        differences += [
            f"{one.server} was given the manifest {_short(one.manifest_sha256)}, "
            f"the fleet's is {_short(manifest_sha256)}"
            for one in same
            if one.manifest_sha256 != manifest_sha256
        ]
    else:
        differences += _odd("manifest", [(one.server, one.manifest_sha256) for one in same])
    return Parity(
        fleet=fleet,
        model=model,
        version=version,
        servers=tuple(reports),
        differences=tuple(differences),
        open_release=open_release,
    )


def _odd(what: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """Return what each server has that differs from what most have."""
    pairs = list(found)
    if not pairs:
        return []
    most = Counter(value for _, value in pairs).most_common(1)[0][0]
    return [
        f"{server} has the {what} {_short(value)}, others have {_short(most)}"
        for server, value in pairs
        if value != most
    ]


def _version(version: int | None) -> str:
    return "nothing" if version is None else f"version {version}"


def _short(value: str) -> str:
    return (value[:12] if len(value) == 64 else value) or "none"
