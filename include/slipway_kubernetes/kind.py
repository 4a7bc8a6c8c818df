"""Which kind of object is meant: a value, known without any client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object that lies under `/apis`.

    :param invalid_remedy: what a person can do about an object that the API server finds invalid; "" where no person
        wrote it, so that it is an error of the cluster as any other.
    """

    group: str
    version: str
    plural: str
    kind: str
    invalid_remedy: str = ""
