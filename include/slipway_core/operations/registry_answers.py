"""What MLflow's registry answers, read as what anybody may have written: typed and bounded, or an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_core.errors import ArrivalRefusedError, UserError
from slipway_core.identifiers import parse_version
from slipway_rules.text_forms import is_relative_path

FILES_LIMIT = 1000
FOLDERS_LIMIT = 200
DEPTH_LIMIT = 8
FILE_LIMIT_BYTES = 5 * 2**30
"""S3 takes no larger object in one request."""

_PROXIED = "mlflow-artifacts:/"
_S3 = "s3://"
# Of a folder in a store of artifacts; stricter than a URI, so that nothing in it needs a meaning.
_FOLDER_PART = re.compile(r"[A-Za-z0-9_=+@-][A-Za-z0-9._=+@-]*")
_TEXT_LIMIT = 1000
_TAGS_LIMIT = 500


@dataclass(frozen=True)
class RegisteredModel:
    """A registered model: which version carries which alias."""

    name: str
    aliases: Mapping[str, int]


@dataclass(frozen=True)
class RegistryVersion:
    """A version of a registered model; `status` is MLflow's word, `created_at_ms` counts from 1970."""

    number: int
    status: str
    source: str
    run_id: str
    created_at_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServedFolder:
    """A folder of artifacts that MLflow's server hands out."""

    path: str


@dataclass(frozen=True)
class BucketFolder:
    """A folder of artifacts in S3; the prefix ends with a slash."""

    bucket: str
    prefix: str


@dataclass(frozen=True)
class FolderEntry:
    """A file or a folder among artifacts, by its own name."""

    name: str
    is_folder: bool
    size_bytes: int


def parse_registered_model(answer: object) -> RegisteredModel:
    """Return the registered model in the answer to `registered-models/get`.

    :raises UserError: it is no such answer.
    """
    model = _mapping(_mapping(answer, "the answer").get("registered_model"), "registered_model")
    aliases = {}
    for entry in _list(model.get("aliases"), "aliases"):
        alias = _mapping(entry, "aliases")
        aliases[_text(alias.get("alias"), "alias")] = parse_version(alias.get("version"))
    return RegisteredModel(_text(model.get("name"), "name"), aliases)


def parse_registry_version(answer: object) -> RegistryVersion:
    """Return the version in the answer to `model-versions/get`.

    :raises UserError: it is no such answer.
    """
    return _version(_mapping(answer, "the answer").get("model_version"))


def parse_registry_versions(answer: object) -> list[RegistryVersion]:
    """Return the versions in the answer to `model-versions/search`.

    :raises UserError: it is no such answer.
    """
    return [
        _version(one) for one in _list(_mapping(answer, "the answer").get("model_versions"), "model_versions")
    ]


def parse_folder(answer: object) -> Iterator[FolderEntry]:
    """Yield what lies in a folder, from the answer of MLflow's artifact server.

    :raises UserError: it is no such answer.
    :raises ArrivalRefusedError: a file may not have one of the names in it.
    """
    for entry in _list(_mapping(answer, "the answer").get("files"), "files"):
        one = _mapping(entry, "files")
        name, is_folder = one.get("path"), one.get("is_dir") is True
        if not isinstance(name, str) or "/" in name or not is_relative_path(name):
            raise _bad_name(name)
        size = one.get("file_size") or 0
        # MLflow writes 64-bit numbers as text in places.
        if isinstance(size, str) and size.isascii() and size.isdecimal() and len(size) <= 19:
            size = int(size)
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise _malformed("file_size", size)
        yield FolderEntry(name, is_folder, size)


def parse_text(answer: object, *path: str) -> str:
    """Return the text at a place in an answer.

    :raises UserError: there is none.
    """
    value: object = answer
    for key in path:
        value = _mapping(value, "the answer").get(key)
    return _text(value, ".".join(path))


def artifact_folder(uri: str, roots: Sequence[str], inside: str = "") -> ServedFolder | BucketFolder:
    """Return the folder that an address of artifacts leads to.

    :param roots: where in S3 it may lie, each with a slash at its end.
    :param inside: a path below it, of plain names.
    :raises ArrivalRefusedError: it leads elsewhere.
    """
    whole = f"{uri.rstrip('/')}/{inside}" if inside else uri.rstrip("/")
    if whole.startswith(_PROXIED) and not whole.startswith(f"{_PROXIED}/"):
        path = whole.removeprefix(_PROXIED)
        if _is_plain(path):
            return ServedFolder(path)
    elif whole.startswith(_S3) and any(f"{whole}/".startswith(root) for root in roots):
        bucket, _, prefix = whole.removeprefix(_S3).partition("/")
        if _is_plain(prefix):
            return BucketFolder(bucket, f"{prefix}/")
    raise ArrivalRefusedError(
        "the version's artifacts are in a place that is not read",
        expected=" or ".join((f"{_PROXIED}… of the registry's own server", *roots)),
        found=repr(uri[:200]),
        remedy="let MLflow's server hand its artifacts out (`--serve-artifacts`), or name the folder in S3 in "
        "`registry.mlflow.artifact_roots`",
    )


class FileTally:
    """Counts what a version has, while it is listed: the listing ends where it is too much.

    :param size_limit_bytes: of all files together.
    """

    def __init__(self, size_limit_bytes: int) -> None:
        self._size_limit_bytes = size_limit_bytes
        self._folders = 0
        self.files: dict[str, int] = {}

    @property
    def size_bytes(self) -> int:
        """What all files have together."""
        return sum(self.files.values())

    def folder(self, name: str) -> None:
        """Count a folder; its name is relative to the version.

        :raises ArrivalRefusedError: there are too many, or it lies too deep.
        """
        self._folders += 1
        if self._folders > FOLDERS_LIMIT or name.count("/") + 1 > DEPTH_LIMIT:
            raise _too_much(
                "folders", f"{FOLDERS_LIMIT} folders, {DEPTH_LIMIT} deep", f"{name[:200]!r} and more"
            )

    def file(self, name: str, size_bytes: int) -> None:
        """Count a file; its name is relative to the version.

        :raises ArrivalRefusedError: it may not be there, or it is too much.
        """
        if not is_relative_path(name):
            raise _bad_name(name)
        if name == "ready.json" or name in self.files:
            raise ArrivalRefusedError(
                f"the version has a file {name!r}" + (" twice" if name in self.files else ""),
                expected="each file once, and no ready.json: that one is written here",
                remedy="register the model again without it",
            )
        if len(self.files) == FILES_LIMIT:
            raise _too_much("files", f"{FILES_LIMIT} files", "more")
        self.files[name] = size_bytes
        if size_bytes > FILE_LIMIT_BYTES:
            raise _too_much(f"bytes in {name!r}", f"{FILE_LIMIT_BYTES} in a file", str(size_bytes))
        if self.size_bytes > self._size_limit_bytes:
            raise _too_much(
                "bytes",
                f"{self._size_limit_bytes} (`registry.mlflow.size_limit_mib`)",
                f"{self.size_bytes} or more",
            )


def _version(value: object) -> RegistryVersion:
    one = _mapping(value, "model_version")
    tags = {}
    for entry in _list(one.get("tags"), "tags")[:_TAGS_LIMIT]:
        tag = _mapping(entry, "tags")
        key, tag_value = tag.get("key"), tag.get("value")
        if isinstance(key, str) and isinstance(tag_value, str):
            tags[key] = tag_value
    created = one.get("creation_timestamp") or 0
    if isinstance(created, str) and created.isascii() and created.isdecimal() and len(created) <= 15:
        created = int(created)
    if not isinstance(created, int):
        raise _malformed("creation_timestamp", created)
    return RegistryVersion(
        number=parse_version(one.get("version")),
        status=str(one.get("status") or "READY")[:100],
        source=_text(one.get("source"), "source"),
        run_id=_text(one.get("run_id") or "", "run_id"),
        created_at_ms=created,
        tags=tags,
    )


def _is_plain(path: str) -> bool:
    return len(path) <= _TEXT_LIMIT and all(
        _FOLDER_PART.fullmatch(part) and ".." not in part for part in path.split("/")
    )


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _malformed(place, value)
    return value


def _list(value: object, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _malformed(place, value)
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT:
        raise _malformed(place, value)
    return value


def _malformed(place: str, found: object) -> UserError:
    return UserError(
        "MLflow's answer is not as its REST API describes it",
        expected=f"another value at {place}",
        found=repr(found)[:200],
        remedy="check the address of the connection, and the server's version",
    )


def _bad_name(name: object) -> ArrivalRefusedError:
    return ArrivalRefusedError(
        "the version has a file whose name cannot be used",
        expected="plain names: letters, digits, `.`, `_`, `-`, `+`, `@`; no hidden ones, no `..`",
        found=repr(name)[:200],
        remedy="register the model again without it",
    )


def _too_much(what: str, expected: str, found: str) -> ArrivalRefusedError:
    return ArrivalRefusedError(
        f"the version has too many {what}",
        expected=f"at most {expected}",
        found=found,
        remedy="register the model again with what Triton needs alone",
    )
