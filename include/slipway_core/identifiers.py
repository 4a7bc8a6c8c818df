"""Names of models and numbers of versions: what is allowed, and what exists.

Standard library only, cheap to import.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from slipway_core.errors import UnknownModelError, VersionInvalidError
from slipway_rules.text_forms import MODEL_NAME_LIMIT, VERSION_LIMIT, is_dns_label

_IN_FOLDERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
# Airflow's own limit of an id is 250 characters; a key in S3 has 1024 bytes for all of it.
_FOLDER_LIMIT = 400

_VERSION = re.compile(r"[1-9][0-9]*")
_RELEASE_SUFFIX = ".yaml"
# Of a word that a near one is sought for, and of those that it is sought among.
_WORD_LIMIT, _WORDS_LIMIT = 100, 200


def validate_model_name(name: object) -> str:
    """Return `name` if it can be a model's name; it becomes a directory, a URL part and a Kubernetes name.

    Raises UnknownModelError: a name that cannot be one names no model.
    """
    if isinstance(name, str) and is_dns_label(name, MODEL_NAME_LIMIT):
        return name
    raise UnknownModelError(
        f"{_shown(name)} is not a model name",
        expected=f"lower-case letters, digits and inner hyphens, at most {MODEL_NAME_LIMIT} characters",
        found=_why_not_a_name(name),
        remedy="Use the name of a file in include/releases/, without .yaml.",
    )


def parse_version(value: object) -> int:
    """Return a model version as a positive int, from an int or from plain decimal digits.

    Raises VersionInvalidError for everything else: booleans, floats, signs, spaces, leading zeros, other
    scripts' digits.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        number: int | None = value
    elif isinstance(value, str) and len(value) <= len(str(VERSION_LIMIT)) and _VERSION.fullmatch(value):
        number = int(value)
    else:
        number = None
    if number is not None and 1 <= number <= VERSION_LIMIT:
        return number
    raise VersionInvalidError(
        f"{_shown(value)} is not a model version",
        expected=f"a whole number from 1 to {VERSION_LIMIT}, in plain digits",
        found=f"{_shown(value)} ({type(value).__name__})",
        remedy="Give the number of the folder under incoming/MODEL/, for example 2.",
    )


def list_models(releases_dir: Path) -> list[str]:
    """Return the models that have a release file in `releases_dir`, sorted; no file is opened."""
    if not releases_dir.is_dir():
        return []
    stems = (path.stem for path in releases_dir.iterdir() if path.suffix == _RELEASE_SUFFIX)
    return sorted(stem for stem in stems if is_dns_label(stem, MODEL_NAME_LIMIT))


def release_file(releases_dir: Path, model: str) -> Path:
    """Return the path of a model's release file.

    Raises UnknownModelError, which lists the models there are, when there is no such file.
    """
    name = validate_model_name(model)
    known = list_models(releases_dir)
    if name in known:
        return releases_dir / f"{name}{_RELEASE_SUFFIX}"
    raise UnknownModelError(
        f"no release file for the model {name!r}",
        expected=f"one of {', '.join(known)}"
        if known
        else f"a file {name}{_RELEASE_SUFFIX} in {releases_dir.name}/",
        found="no such file",
        remedy=f"{_did_you_mean(name, known)}To release a new model, add {name}{_RELEASE_SUFFIX} to "
        f"{releases_dir.name}/.",
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most like `word`, or None when none is near.

    Only the first of very many known words are looked at, and a very long word is like none: the search takes time.
    """
    if len(word) > _WORD_LIMIT:
        return None
    matches = difflib.get_close_matches(word, list(islice(known, _WORDS_LIMIT)), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _did_you_mean(word: str, known: list[str]) -> str:
    near = nearest(word, known)
    return f"Did you mean {near!r}? " if near else ""


def _why_not_a_name(name: object) -> str:
    if not isinstance(name, str):
        return f"a value of type {type(name).__name__}"
    if not name:
        return "an empty name"
    if len(name) > MODEL_NAME_LIMIT:
        return f"{len(name)} characters"
    strange = sorted({character for character in name if not re.fullmatch(r"[-a-z0-9]", character)})
    if strange:
        return "the characters " + " ".join(repr(character) for character in strange)
    return "a hyphen at one end"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _in_folder(byte: int, before: int) -> str:
    """Return what stands for a byte of an id; what comes before the first one counts as a dot."""
    one = chr(byte)
    stays = one in _IN_FOLDERS and not (chr(before) == "." and one in ".-")
    return one if stays else f"~{byte:02x}"


def run_folder(run_id: str) -> str:
    """Return a run's id as the name of one folder: another id has another folder, and none leads out of its place.

    Letters, digits, `_`, `-` and `.` stay; each byte of the rest is `~` and two hexadecimal digits. So are a first `-`
    or `.`, and a `.` after another. Of a very long id the end is its digest.
    """
    content = run_id.encode("utf-8", "surrogatepass")
    encoded = "".join(map(_in_folder, content, b"." + content))
    if not encoded:
        return "~"
    if len(encoded) <= _FOLDER_LIMIT:
        return encoded
    digest = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{encoded[: _FOLDER_LIMIT - len(digest) - 2]}~~{digest}"
