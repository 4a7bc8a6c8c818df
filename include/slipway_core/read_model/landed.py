"""What has landed below `incoming/`, and what of it cannot be released: why, and what to do.

Whoever has uploaded something looks for it here; no record knows of what was refused at the door.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from slipway_core.bucket_layout import READY_FILE, incoming_prefix
from slipway_core.errors import SlipwayError, UserError
from slipway_core.intake import ReadyFile, require_files
from slipway_core.read_model.documents import ModelDocument, Standing
from slipway_core.read_model.stored import Line, Part, Version, cut
from slipway_core.record.arrivals import near_marker
from slipway_core.record.events import Outcome
from slipway_core.value_types import UtcTime
from slipway_rules.version_manifest import CONFIG_FILE

PROBLEMS_LIMIT = 100
UPLOAD_LIMIT = timedelta(minutes=10)
"""An upload without `ready.json` that has not grown for so long is reported as lacking it."""
_NAMED = 8
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


class LandedProblem(Part):
    """Something that has landed and starts nothing.

    `place` is its folder or key; `version` is None if that isn't a version's. `reason` says why, `remedy` what to do.
    `blocks`: nobody can start a release of it; otherwise a person can.
    """

    model: Line
    place: Line
    version: Version | None = None
    reason: Line
    remedy: Line = ""
    blocks: bool = True
    at: UtcTime | None = None

    @property
    def sentence(self) -> str:
        """Why and what to do, in words."""
        remedy = f" What to do: {self.remedy}" if self.remedy else ""
        return f"{self.reason.rstrip('.')}.{remedy}"


class LandedVersion(Part):
    """A version that has landed.

    `is_complete` tells that training has written ready.json, None that it is not known. `outcome` is the newest
    release's, None if it was never released.
    """

    version: Version
    is_complete: bool | None = None
    outcome: Outcome | None = None
    standing: Standing = ""
    is_rejected: bool = False


class Landed(Part):
    """What there is of a model; versions newest first. `is_whole` is false if more has landed than is listed."""

    model: Line
    versions: tuple[LandedVersion, ...] = ()
    is_whole: bool = True
    live_version: Version | None = None
    previous_version: Version | None = None
    under_way: Version | None = None
    unusable: Annotated[tuple[LandedProblem, ...], Field(max_length=PROBLEMS_LIMIT)] = ()


@dataclass(frozen=True)
class Needed:
    """What a release file asks for of an upload.

    :param files: must have arrived beside ready.json.
    :param root: where in the version's folder the model lies, with a closing slash; "": in it.
    :param is_folder: the model is a repository of several.
    """

    files: Collection[str] = ()
    root: str = ""
    is_folder: bool = False

    def reads_config(self, name: str) -> bool:
        """Return whether a release reads this file of the folder as a configuration."""
        if not name.startswith(self.root):
            return False
        folder, _, file = name.removeprefix(self.root).rpartition("/")
        return file == CONFIG_FILE and (not folder or (self.is_folder and "/" not in folder))


@dataclass(frozen=True)
class Folder:
    """The folder of a version below `incoming/MODEL/`.

    :param names: what lies in it, without the folder.
    :param written_at: when the newest object was written.
    :param ready: what ready.json says; an error: why it cannot be read; None: it is not there.
    :param ready_at: when ready.json was written.
    :param configs: why a configuration cannot be read, by its name.
    :param is_whole: all names are known; otherwise missing files aren't reported.
    """

    version: int
    names: frozenset[str]
    written_at: datetime
    ready: ReadyFile | UserError | None = None
    ready_at: datetime | None = None
    configs: Mapping[str, UserError] = field(default_factory=dict)
    is_whole: bool = True


def require_landed(landed: Landed, version: int) -> None:
    """Return where a version has landed whole, as far as that is known.

    :raises UserError: it has not, or it cannot be released.
    """
    name = f"version {version} of {landed.model!r}"
    place = f"{incoming_prefix(landed.model)}{version}/"
    problem = next((one for one in landed.unusable if one.version == version and one.blocks), None)
    if problem is not None:
        raise UserError(
            f"{name} is uploaded but cannot be released", found=problem.reason, remedy=problem.remedy
        )
    found = next((one for one in landed.versions if one.version == version), None)
    if found is None and landed.is_whole:
        complete = [str(one.version) for one in landed.versions if one.is_complete is not False]
        raise UserError(
            f"{name} is not uploaded",
            expected=f"{place}{READY_FILE}",
            found=f"uploaded: {', '.join(complete[:_NAMED])}" if complete else "no uploads",
            remedy=f"upload it to {place}, {READY_FILE} last; or check the number",
        )
    if found is not None and found.is_complete is False:
        raise UserError(
            f"{name} is not uploaded completely",
            expected=f"{place}{READY_FILE}, as the last object",
            found=f"files, and no {READY_FILE}",
            remedy=f"let training end its upload with {READY_FILE}",
        )


def stray_problem(model: str, stray: str) -> LandedProblem | None:
    """Return what is wrong with a folder, or a marker, that belongs to no version; None: it is no upload."""
    prefix = incoming_prefix(model)
    name = stray.removeprefix(prefix)
    if not name.endswith("/"):
        if near_marker([name]) is None and name != READY_FILE:
            return None  # what desktops and consoles leave
        reason, folder = f"{name} is next to the version folders", "VERSION"
    else:
        reason = f"the folder {name} is not a version: a version is a whole number from 1, in plain digits"
        number = _NUMBER.search(name.lstrip("0v"))
        folder = number.group(0) if number is not None else "VERSION"
    return LandedProblem(
        model=model,
        place=cut(stray),
        reason=cut(reason),
        remedy=cut(f"upload it to {prefix}{folder}/, {READY_FILE} last"),
    )


def foreign_problem(folder: str) -> LandedProblem:
    """Return what is wrong with a folder below `incoming/` whose name can be no model's."""
    name = folder.removeprefix("incoming/").rstrip("/")
    return LandedProblem(
        model=cut(name),
        place=cut(folder),
        reason="this is not a valid model name: lower-case letters, digits and inner hyphens, at most 50 characters",
        remedy="upload it to the folder of a model that has a release file",
    )


def folder_problem(
    model: str,
    folder: Folder,
    document: ModelDocument | None,
    *,
    needed: Needed | UserError,
    now: datetime,
) -> LandedProblem | None:
    """Return why what lies in a folder starts nothing; None: it may, or it is in the record.

    :param document: what the records tell of the model; None: nothing.
    :param needed: what the release file asks for; an error: why it cannot be read.
    """
    if _is_recorded(folder, document):
        return None
    place = f"{incoming_prefix(model)}{folder.version}/"

    def problem(reason: str, remedy: str, *, blocks: bool = True) -> LandedProblem:
        return LandedProblem(
            model=model,
            place=place,
            version=folder.version,
            reason=cut(reason),
            remedy=cut(remedy),
            blocks=blocks,
            at=folder.ready_at or folder.written_at,
        )

    if folder.ready is None:
        near = near_marker(folder.names)
        if near is not None:
            return problem(
                f"the marker is named {near}", f"upload it as {place}{READY_FILE}, as the last object"
            )
        if now - folder.written_at < UPLOAD_LIMIT:
            return None
        return problem(f"{READY_FILE} is missing", f"upload {place}{READY_FILE}, as the last object")
    error = _first_error(folder, needed)
    if error is not None:
        return problem(
            _why(error), error.remedy or "correct it and upload ready.json again, as the last object"
        )
    older = _older(folder.version, document)
    return None if older is None else problem(*older, blocks=False)


def _older(version: int, document: ModelDocument | None) -> tuple[str, str] | None:
    """Return why nothing starts a version by itself that is older than one that was started, and what to do."""
    if document is None:
        return None
    live = document.live_version
    started = max((line.version for line in document.versions if not line.rejected_only), default=0)
    command = f"a person can: slipway release {document.model} {version}"
    if live is not None and version < live:
        return (
            f"a newer version, {live}, is live, so an older one does not start automatically",
            f"{command} --force",
        )
    if version < started:
        return (
            f"a newer version, {started}, was started, so an older one does not start automatically",
            command,
        )
    return None


def _first_error(folder: Folder, needed: Needed | UserError) -> SlipwayError | None:
    if isinstance(folder.ready, UserError):
        return folder.ready
    if isinstance(needed, UserError):
        return needed
    assert folder.ready is not None  # noqa: S101 - for the type
    try:
        if folder.is_whole:
            require_files(folder.ready, folder.names, needed.files)
    except UserError as error:
        return error
    return next(iter(folder.configs.values()), None)


def _is_recorded(folder: Folder, document: ModelDocument | None) -> bool:
    """Return whether the record tells what became of it: nothing was uploaded since its release began."""
    line = None if document is None else document.line(folder.version)
    if line is None:
        return False
    if line.standing or line.rejection is not None or line.started_at is None or folder.ready_at is None:
        return True
    return folder.ready_at <= line.started_at


def _why(error: SlipwayError) -> str:
    expected = f"; expected {error.expected}" if error.expected else ""
    return f"{error.in_short()}{expected}"


def by_model(problems: Iterable[LandedProblem]) -> dict[str, tuple[LandedProblem, ...]]:
    """Return the problems of each model."""
    found: dict[str, tuple[LandedProblem, ...]] = {}
    for one in problems:
        found[one.model] = (*found.get(one.model, ()), one)
    return found
