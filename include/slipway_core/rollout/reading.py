"""What a dialect reads besides the InferenceService, and what was found: values, known without any client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Resource:
    """A resource of the Kubernetes API under `/apis`; `kind` is what people call one of its objects."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def name(self) -> str:
        """What rights are given for: PLURAL.GROUP."""
        return f"{self.plural}.{self.group}"


@dataclass(frozen=True)
class Reading:
    """Objects of one resource in the InferenceService's namespace. An object that does not exist is left out.

    :param names: each is read by its name; None: those of the selector are listed.
    :param is_needed: there is no observation without it: an error in reading it is the observation's. Of any other it
        is noted, and the readings after it are left out.
    :param never_changes: what was read once of the same InferenceService need not be read again.
    """

    resource: Resource
    names: tuple[str, ...] | None = None
    label_selector: str = ""
    is_needed: bool = False
    never_changes: bool = False


@dataclass(frozen=True)
class Evidence:
    """What was read besides the InferenceService, among others perhaps; a resource that was not read is missing.

    `unread` is why a reading that is not needed failed; "" if none did.
    """

    objects: Mapping[Resource, Iterable[Object]] = field(default_factory=dict)
    unread: str = ""

    def of(self, resource: Resource) -> tuple[Object, ...]:
        """Return the objects of a resource; none where it was not read."""
        return tuple(self.objects.get(resource, ()))


NOTHING_ELSE = Evidence()
