"""What admission pinned of a release in its record, and whether a task was handed the same.

A release run travels between tasks by XCom, which any task of any DAG and role Op may write. The record lies where only
Slipway writes: a task believes what it was handed as far as the record has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.bucket_layout import parse_storage_uri
from slipway_core.errors import ForeignChangeError, HandedOtherwiseError


@dataclass(frozen=True)
class Admitted:
    """A release as it was admitted.

    :param sha256: of all that it was admitted with, the release file with the run's changes too (`digest_of`).
    """

    bucket: str
    namespace: str
    inference_service: str
    stable_storage_uri: str
    sha256: str

    def to_dict(self) -> dict[str, str]:
        """Return a JSON-ready form."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Admitted:
        """Rebuild from `to_dict`'s form; what a later version has added is left.

        :raises ValueError: it is of another form.
        """
        names = tuple(cls.__dataclass_fields__)
        if not all(isinstance(value.get(name), str) for name in names):
            raise ValueError(f"it must have the texts {', '.join(names)}")
        return cls(**{name: value[name] for name in names})


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON document, whatever the order of its keys."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def handed_otherwise(handed: Admitted, pinned: Admitted | None) -> HandedOtherwiseError | None:
    """Return how a task was handed another release than was admitted; None if it was not.

    :param pinned: as the record has it; None: it pins nothing, and what it must prove permits no raise either.
    """
    if pinned is None or handed == pinned:
        return None
    labels = {
        "bucket": "the bucket",
        "namespace": "the namespace of the InferenceService",
        "inference_service": "the InferenceService",
        "stable_storage_uri": "the address of the stable version",
        "sha256": "the release file, with version and parameters (SHA-256)",
    }
    name = next(name for name in labels if getattr(handed, name) != getattr(pinned, name))
    return otherwise(labels[name], getattr(pinned, name), getattr(handed, name))


def require_consistent_stable(model: str, version: int, storage_uri: str) -> None:
    """Return where number and place are of one version: permission is asked by the one, users are led to the other.

    :raises HandedOtherwiseError: they are not.
    """
    try:
        found = parse_storage_uri(storage_uri)
    except ForeignChangeError:
        found = ("", 0)
    if found != (model, version):
        raise otherwise("the stable version", f"version {version} of {model!r} at its place", storage_uri)


def otherwise(what: str, expected: str, found: str) -> HandedOtherwiseError:
    """Return the error for one thing that a task was handed."""
    return HandedOtherwiseError(
        f"this task was handed another release than was admitted: {what} differs",
        expected=expected or "none",
        found=found or "none",
        remedy="somebody has written the XCom of the task that admits: see Airflow's audit log, then start the release "
        "again",
    )
