"""Which kind of object is meant: a value, known without any client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object that lies under `/apis`.

    :param invalid_remedy: what a person can do about an object that the API server finds invalid; "" if no person
        wrote it, so that it is an error of the cluster as any other.
    """

    group: str
    version: str
    plural: str
    kind: str
    invalid_remedy: str = ""


class NamedResource(Protocol):
    """What distinguishes one kind of object from another, wherever it is named."""

    @property
    def group(self) -> str:
        """Its API group."""

    @property
    def version(self) -> str:
        """The group's version."""

    @property
    def plural(self) -> str:
        """What it is called in a path."""

    @property
    def kind(self) -> str:
        """What people call one object of it."""


def kind_of(resource: NamedResource) -> ObjectKind:
    """Return the kind of a resource whose objects no person wrote."""
    return ObjectKind(resource.group, resource.version, resource.plural, resource.kind)
