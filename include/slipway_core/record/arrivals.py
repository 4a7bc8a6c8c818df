"""Decide which versions that arrived are to be released, from what lies in the bucket.

Two things in the bucket tell whether a release was started, and from which upload: a folder ``records/MODEL/VERSION/``
has events from the first moment of a release on, and the listing has the times at which ready.json and the events were
written.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from slipway_core.bucket_layout import READY_FILE
from slipway_core.errors import SlipwayError, UserError
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.intake import IncomingVersion
from slipway_core.record.events import parse_event_key

KEPT_FOR_S = 4 * 3600
"""How long what was found in a ready.json stays valid, while its upload is the same."""

# Airflow advises against more than 64 KiB in its state store.
_KEPT_LIMIT_BYTES = 60_000
_REASON_LIMIT = 300
_BY_A_PERSON = frozenset({"version_rejected", "version_unrejected"})
_NEAR = frozenset({"ready", "ready.txt", "ready.yaml", "ready.yml", ".ready", "_ready", "_ready.json"})
# Number and key of an event that there is not.
_NEVER: tuple[int, str | None] = (0, None)
# A version with one of these in its record was given to users, or may have been.
_USERS_MET_IT = frozenset({"promoted", "rollback_started", "rolled_back"})


@dataclass(frozen=True)
class Upload:
    """One upload of a ready.json: its entity tag, and when it was written (UTC)."""

    etag: str
    written_at: datetime

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that no other upload of this file has."""
        return hashlib.sha256(f"{self.etag} {_second(self.written_at)}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Arrival:
    """A version that is to be started, and the ids that its run may have; the first one is `run_id_for`'s.

    The second is for an upload whose first id belongs to a run that has ended already: one that was uploaded again
    unchanged after its release was refused, or one for which somebody made a run under the first id.
    """

    incoming: IncomingVersion
    run_ids: tuple[str, str]

    @classmethod
    def of(cls, incoming: IncomingVersion, ready: bytes, written_at: datetime) -> Arrival:
        """Return the arrival of a version with this ready.json, written at that time."""
        moment = _second(written_at).encode()
        ids = [run_id_for(incoming.model, incoming.version, content) for content in (ready, ready + moment)]
        return cls(incoming, (ids[0], ids[1]))


def run_id_for(model: str, version: int, ready: bytes) -> str:
    """Return the id of the run that releases this version with this ready.json.

    The same event twice can start it only once, and another ready.json is another run.
    """
    return f"{validate_model_name(model)}-{parse_version(version)}-{hashlib.sha256(ready).hexdigest()[:8]}"


@dataclass(frozen=True)
class Attempts:
    """What the names of a version's events tell: when its last release began, and what became of all of them.

    `started_at` is None if none was started: somebody has rejected the version before. `ended` is about the last
    one; `met_users` about any: promoted, or taken back. `rejected`: and nobody has lifted that. `taken_back`: after the
    last promotion users were taken off it again, and no rejection was lifted since; `finished_key` is the event that
    tells how that ended.
    """

    started_at: datetime | None
    ended: bool
    met_users: bool
    rejected: bool = False
    taken_back: bool = False
    finished_key: str | None = None

    @property
    def can_be_followed(self) -> bool:
        """Whether an upload that came after the last release began may start another one by itself.

        It failed or was cancelled, users never met it, and nobody and nothing has rejected it.
        """
        return self.ended and not self.met_users and not self.rejected


def read_attempts(objects: Iterable[tuple[str, datetime]]) -> tuple[Attempts | None, list[str]]:
    """Return what the objects below ``records/MODEL/VERSION/`` tell, and the keys of those that are no events.

    :param objects: keys, and when each was written.
    :returns: None in place of the attempts where there is no event, so no release was ever started.
    """
    events: list[tuple[int, str, datetime, str]] = []
    strays: list[str] = []
    for key, written_at in objects:
        try:
            _, _, seq, kind = parse_event_key(key)
        except UserError:
            strays.append(key)
        else:
            events.append((seq, kind, written_at, key))
    if not events:
        return None, strays
    events.sort(key=lambda event: event[0])
    last: dict[str, tuple[int, str | None]] = {kind: (seq, key) for seq, kind, _, key in events}
    # Two events of other kinds may have the same number: in doubt it is rejected.
    rejected_at = last.get("version_rejected", _NEVER)[0]
    rejected = rejected_at > 0 and rejected_at >= last.get("version_unrejected", _NEVER)[0]
    own = [event for event in events if event[1] not in _BY_A_PERSON]
    if not own:
        return Attempts(started_at=None, ended=False, met_users=False, rejected=rejected), strays
    begun = [event for event in own if event[1] == "release_started"] or own[:1]
    back_at = max(last.get(kind, _NEVER)[0] for kind in ("rollback_started", "rolled_back"))
    finished_at, finished_key = last.get("release_finished", _NEVER)
    return Attempts(
        started_at=begun[-1][2],
        ended=finished_at > begun[-1][0],
        met_users=any(kind in _USERS_MET_IT for _, kind, _, _ in events),
        rejected=rejected,
        taken_back=back_at > max(last.get(kind, _NEVER)[0] for kind in ("promoted", "version_unrejected")),
        finished_key=finished_key if finished_at > back_at else None,
    ), strays


def version_folders(prefix: str, names: Iterable[str]) -> tuple[dict[int, set[str]], list[str]]:
    """Return what lies in the folder of each version below a prefix, and the strays.

    A stray is a key beside the folders, or a folder that belongs to no version; each is named once.

    :param prefix: ``incoming/MODEL/``.
    :param names: keys, or folders with their closing slash.
    """
    versions: dict[int, set[str]] = {}
    strays: dict[str, None] = {}
    for name in names:
        folder, slash, inside = name.removeprefix(prefix).partition("/")
        number = _number(folder) if slash else None
        if number is not None:
            versions.setdefault(number, set()).add(inside)
        elif name != prefix:  # S3's console makes an object that stands for the folder itself
            strays[f"{prefix}{folder}{slash}"] = None
    return versions, list(strays)


def near_marker(inside: Iterable[str]) -> str | None:
    """Return a name in a version's folder that was meant to be `ready.json` and is not; None: there is none.

    Another case, an ending too many, a letter astray, or a folder too deep: S3 has no such leniency, and tells nobody.

    :param inside: the names in the folder, without the folder.
    """
    names = sorted(inside)
    if READY_FILE in names:
        return None
    deeper = [
        name for name in names if name.rpartition("/")[2] == READY_FILE or name.startswith(f"{READY_FILE}/")
    ]
    near = [name for name in names if "/" not in name and _is_near(name.casefold())]
    return next(iter([*near, *deeper]), None)


def _is_near(name: str) -> bool:
    if name.startswith((READY_FILE, "ready.jsn", "ready_json", "ready-json")) or name in _NEAR:
        return True
    return bool(difflib.get_close_matches(name[:40], [READY_FILE], cutoff=0.84))


def missing_releases(
    incoming: Iterable[IncomingVersion], released: Iterable[IncomingVersion]
) -> list[IncomingVersion]:
    """Return the versions that arrived but were never started, in the order in which to start them.

    A version older than one that was started is left out: to start it now would take the model back behind a newer
    release.

    :param incoming: all that arrived.
    :param released: all that were started, whatever became of them.
    """
    newest: dict[str, int] = {}
    for version in released:
        newest[version.model] = max(version.version, newest.get(version.model, 0))
    return sorted({version for version in incoming if version.version > newest.get(version.model, 0)})


@dataclass(frozen=True)
class Kept:
    """What an upload of ready.json was found to be when it was read: one that starts nothing by itself.

    `reason` says what is wrong with it; None: nothing, it says `by_hand`. `read_at` is in seconds since 1970.
    """

    upload: str
    read_at: int
    reason: str | None

    @classmethod
    def of(cls, upload: Upload, read_at: float, error: SlipwayError | None) -> Kept:
        """Return what to keep of a ready.json that was read."""
        return cls(upload.digest, int(read_at), None if error is None else str(error)[:_REASON_LIMIT])


def kept_from(value: object, now_s: float) -> dict[IncomingVersion, Kept]:
    """Read what `kept_as_json` returned; entries of another form, and those older than `KEPT_FOR_S`, are left out.

    It only saves reading: whatever is left out is read again.

    :param now_s: seconds since 1970.
    """
    kept: dict[IncomingVersion, Kept] = {}
    for name, entry in value.items() if isinstance(value, Mapping) else ():
        try:
            model, _, version = name.partition("/")
            upload, read_at, reason = entry
            if isinstance(upload, str) and type(read_at) is int and isinstance(reason, str | None):
                incoming = IncomingVersion(validate_model_name(model), parse_version(version))
                if now_s - KEPT_FOR_S < read_at <= now_s:
                    kept[incoming] = Kept(upload, read_at, reason and reason[:_REASON_LIMIT])
        except (AttributeError, TypeError, ValueError, UserError):
            continue
    return kept


def kept_as_json(kept: Mapping[IncomingVersion, Kept]) -> dict[str, JsonValue]:
    """Return what fits into Airflow's state store as JSON, the newest versions first."""
    room = _KEPT_LIMIT_BYTES
    chosen: dict[str, JsonValue] = {}
    for incoming in sorted(kept, key=lambda each: (-each.version, each.model)):
        known = kept[incoming]
        name = f"{incoming.model}/{incoming.version}"
        entry: list[JsonValue] = [known.upload, known.read_at, known.reason]
        room -= len(json.dumps([name, entry])) + 2
        if room < 0:
            break
        chosen[name] = entry
    return chosen


def _second(moment: datetime) -> str:
    """Return a time to the second: a listing gives times to the second or to the millisecond, a read to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(folder: str) -> int | None:
    try:
        return parse_version(folder)
    except UserError:
        return None
