"""Kinds that people may add: each is one class in one file, and a registry finds it by its name.

The kinds of this project are the modules of one folder, a module for each, named as the kind. Those of other packages
are entry points of the registry's group, named as the kind, whose value is the class:

    [project.entry-points."slipway.validation_kinds"]
    toxicity = "my_package.toxicity:ToxicityValidation"

Nothing is imported and no package is looked for before a kind is asked for. A kind of this project is found without a
look at the packages that are installed: none of them can take its place, or break it.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Generic, TypeVar

from slipway_core.errors import UserError

Kind = TypeVar("Kind")
Added = TypeVar("Added", bound=type[Any])


class UnknownKindError(UserError):
    """No kind of that name is known, of this project or of another package."""


class KindUnusableError(UserError):
    """Another package adds a kind that cannot be used."""


class KindRegistry(Generic[Kind]):
    """The kinds of one family.

    :param what: what a kind of the family is called in an error, such as "validation kind".
    :param folder: the package whose modules are this project's kinds.
    :param base: the class that each kind is derived from, as `module:Class`.
    :param name_attribute: the class's attribute, or the field whose default, is the kind's name.
    :param group: the group of entry points by which other packages add kinds.
    """

    def __init__(self, what: str, *, folder: str, base: str, name_attribute: str, group: str) -> None:
        self.what = what
        self.group = group
        self._folder = folder
        self._base = base
        self._name_attribute = name_attribute
        self._registered: dict[str, type[Kind]] = {}

    def register(self, kind: Added) -> Added:
        """Add a kind: the decorator of its class.

        :raises KindUnusableError: it is not derived from the family's base, lacks a part, or has another kind's name.
        """
        self._add(kind, _place(kind))
        return kind

    def get(self, name: str) -> type[Kind]:
        """Return the kind of that name.

        :raises UnknownKindError: there is none; it names those that there are.
        :raises KindUnusableError: it is another package's and cannot be used; that package is named.
        """
        if name in self._registered:
            return self._registered[name]
        if name in self.built_in():
            import_module(f"{self._folder}.{name}")
        elif name in self._added():
            self._load(name)
        if name not in self._registered:
            raise UnknownKindError(
                f"there is no {self.what} {name[:100]!r}",
                expected=f"one of {', '.join(self.names())}",
                found=repr(name[:100]),
                remedy=f"Correct the name, or install the package that adds it (entry points `{self.group}`).",
            )
        return self._registered[name]

    def names(self) -> tuple[str, ...]:
        """Return the names of all kinds: this project's, then those of other packages."""
        others = sorted((self._registered.keys() | self._added().keys()) - set(self.built_in()))
        return (*self.built_in(), *others)

    def all(self) -> dict[str, type[Kind]]:
        """Return all kinds by name.

        :raises KindUnusableError: another package adds one that cannot be used.
        """
        return {name: self.get(name) for name in self.names()}

    def imported(self) -> dict[str, type[Kind]]:
        """Return by name the kinds of this project, and those of other packages that were asked for already."""
        return {name: self.get(name) for name in self.built_in()} | self._registered

    def built_in(self) -> tuple[str, ...]:
        """Return the names of this project's kinds, in alphabetical order."""
        return _modules_of(self._folder)

    def _add(self, kind: type[Kind], where: str) -> None:
        base = self._base_class()
        if not (inspect.isclass(kind) and issubclass(kind, base)):
            raise self._unusable(where, f"a class derived from {self._base}", repr(kind)[:200])
        lacking = [*getattr(kind, "__abstractmethods__", ())]
        lacking += [part for part in getattr(base, "required", ()) if not hasattr(kind, part)]
        if lacking:
            everything = f"a class with all that {self._base} asks for"
            raise self._unusable(where, everything, f"no {', '.join(sorted(lacking))}")
        name = self._name_of(kind)
        if not name:
            raise self._unusable(where, f"a name, as `{self._name_attribute}`", "none")
        if name in self.built_in() and kind.__module__ != f"{self._folder}.{name}":
            raise self._unusable(where, "a name that no kind of Slipway has", repr(name))
        known = self._registered.get(name)
        if known is not None and _place(known) != _place(kind):
            raise self._unusable(where, f"a different name: {_place(known)} already has this one", repr(name))
        self._registered[name] = kind

    def _load(self, name: str) -> None:
        """Import the kind that another package adds."""
        points = self._added()[name]
        where = " and ".join(sorted(map(_origin, points)))
        if len(points) > 1:
            raise self._unusable(where, "one package that adds a kind of that name", f"{len(points)} of them")
        try:
            kind = points[0].load()
        except KindUnusableError as error:
            raise self._unusable(where, str(error.expected), str(error.found)) from error
        except Exception as error:  # whatever the import of somebody else's package raises
            raise self._unusable(where, "a class that can be imported", _shown(error)) from error
        self._add(kind, where)
        if name not in self._registered or self._registered[name] is not kind:
            raise self._unusable(
                where, f"a class whose `{self._name_attribute}` is {name!r}", repr(self._name_of(kind))
            )

    def _added(self) -> Mapping[str, list[EntryPoint]]:
        """Return by name what other packages add.

        :raises KindUnusableError: one would take the place of a kind of this project.
        """
        found: dict[str, list[EntryPoint]] = {}
        for point in _installed(self.group):
            found.setdefault(point.name, []).append(point)
        for name in self.built_in():
            if name in found:
                where = " and ".join(sorted(map(_origin, found[name])))
                raise self._unusable(where, "a name that no kind of Slipway has", repr(name))
        return found

    def _base_class(self) -> type:
        module, _, name = self._base.partition(":")
        base: type = getattr(import_module(module), name)
        return base

    def _name_of(self, kind: type) -> str:
        field = getattr(kind, "model_fields", {}).get(self._name_attribute)
        name = getattr(kind, self._name_attribute, None) if field is None else field.default
        return name if isinstance(name, str) else ""

    def _unusable(self, where: str, expected: str, found: str) -> KindUnusableError:
        return KindUnusableError(
            f"the {self.what} of {where} cannot be used",
            expected=expected,
            found=found,
            remedy="Correct that package, or uninstall it; docs/development.md says what a kind is made of.",
        )


@cache
def _modules_of(folder: str) -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(import_module(folder).__path__)))


@cache
def _installed(group: str) -> EntryPoints:
    """Return a group's entry points: all packages are looked through, so once a process."""
    return entry_points(group=group)


def _origin(point: EntryPoint) -> str:
    package = "an unnamed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    return f"{package} ({point.name} = {point.value})"


def _place(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
