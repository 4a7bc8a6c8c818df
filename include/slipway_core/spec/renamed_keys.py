"""Keys and values of release files that have a new name: the former name is taken for one release, with a warning.

The table is of paths in the file, and is looked at before anything is validated, in the file's text as well as in what
a task is given of it. So nothing beyond this module knows a former name.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from slipway_core.errors import SpecError
from slipway_core.yaml_source import Path, YamlSource, dotted

RENAMED_KEYS: Mapping[Path, str] = {
    ("rollout", "top_up"): "golden_replay",
    ("rollout", "mirror"): "mirror_comparison",
}
"""The new name of the last part of each former path."""
RENAMED_VALUES: Mapping[Path, Mapping[str, str]] = {
    ("rollout", "on_inconclusive"): {"top_up": "golden_replay"},
}
"""The new name of each former value, by the (new) path of its key."""


class RenamedKeyWarning(FutureWarning):
    """A release file says a key or a value by its former name, which the next release of Slipway will refuse."""


def with_new_names(parsed: YamlSource) -> YamlSource:
    """Return a release file with new names in place of former ones, and warn of each of these.

    :raises SpecError: a key is there by both names.
    """
    data = parsed.data
    for former, new in RENAMED_KEYS.items():
        parent = _mapping_at(data, former[:-1])
        if parent is None or former[-1] not in parent:
            continue
        path = (*former[:-1], new)
        if new in parent:
            what = f"`{dotted(former)}` is the former name of `{dotted(path)}`, which is there too"
            raise SpecError(
                f"{_placed(parsed, former)}: {what}",
                expected="one of the two",
                found=f"`{dotted(former)}` and `{dotted(path)}`",
                remedy=f"Remove `{dotted(former)}`.",
            )
        _warn(parsed, former, f"the key `{dotted(former)}` is now `{dotted(path)}`")
        # The order of the keys stays.
        renamed = {new if key == former[-1] else key: value for key, value in parent.items()}
        data = _replaced(data, former[:-1], renamed)
        parsed = replace(
            parsed,
            key_lines=_moved(parsed.key_lines, former, path),
            value_lines=_moved(parsed.value_lines, former, path),
        )
    for path, names in RENAMED_VALUES.items():
        parent = _mapping_at(data, path[:-1])
        value = None if parent is None else parent.get(path[-1])
        if parent is not None and isinstance(value, str) and value in names:
            _warn(parsed, path, f"`{dotted(path)}: {value}` is now `{dotted(path)}: {names[value]}`")
            data = _replaced(data, path[:-1], {**parent, path[-1]: names[value]})
    return replace(parsed, data=data)


@contextmanager
def renamed_keys_told() -> Iterator[list[str]]:
    """Collect the warnings of former names that are met inside, for a caller who tells them to a person."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RenamedKeyWarning)
        try:
            yield told
        finally:
            told += [str(one.message) for one in caught if issubclass(one.category, RenamedKeyWarning)]
    for one in caught:
        if not issubclass(one.category, RenamedKeyWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _warn(parsed: YamlSource, path: Path, what: str) -> None:
    warnings.warn(
        f"{_placed(parsed, path)}: {what}; the former name is taken in this release of Slipway alone",
        RenamedKeyWarning,
        stacklevel=4,
    )


def _placed(parsed: YamlSource, path: Path) -> str:
    return f"{parsed.name}, line {parsed.line_of(path)}" if parsed.key_lines else parsed.name


def _mapping_at(data: Any, path: Path) -> Mapping[Any, Any] | None:
    for part in path:
        if not isinstance(data, Mapping) or part not in data:
            return None
        data = data[part]
    return data if isinstance(data, Mapping) else None


def _replaced(data: Mapping[str, Any], path: Path, value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return `data` with `value` at `path`; nothing is changed in place."""
    if not path:
        return dict(value)
    first = str(path[0])
    return {**data, first: _replaced(data[first], path[1:], value)}


def _moved(lines: Mapping[Path, int], former: Path, path: Path) -> dict[Path, int]:
    size = len(former)
    return {(*path, *key[size:]) if key[:size] == former else key: line for key, line in lines.items()}
