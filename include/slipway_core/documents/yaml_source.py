"""A YAML text together with the lines of its parts, so that an error can name the line it is about.

Scalars follow YAML 1.2 and not PyYAML's 1.1: `no` and `on` are text, `1e-4` is a number. What people read in different
ways is text, too: `012`, `0x1F`, `1_000`, dates. ruamel.yaml knows lines, but reads these as numbers and dates, and
takes tags, aliases and `%YAML 1.1`; to refuse all of that needs as much code as this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from slipway_core.errors import SpecError

# A release file is a page long. A far larger one is another file by mistake, or an attack on the parser.
SIZE_LIMIT_BYTES = 64 * 1024
DEPTH_LIMIT = 20

_PREFIX = "tag:yaml.org,2002:"
_CORE_SCHEMA = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
)

Path = tuple[str | int, ...]


_PATTERNS = {_PREFIX + name: re.compile(pattern) for name, pattern, _ in _CORE_SCHEMA}
_ANYTHING = re.compile(r".*", re.DOTALL)
_PLAIN_TAGS = {*_PATTERNS, f"{_PREFIX}str", f"{_PREFIX}map", f"{_PREFIX}seq"}


class _CoreLoader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2."""


# Start from nothing, so that none of YAML 1.1's resolvers is inherited.
_CoreLoader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in _CORE_SCHEMA:
    # "\0" stands for the empty scalar, which PyYAML looks up under the empty string.
    _firsts = ["" if character == "\0" else character for character in _first]
    _CoreLoader.add_implicit_resolver(_PREFIX + _name, re.compile(rf"(?:{_pattern})\Z"), _firsts)


@dataclass(frozen=True)
class YamlSource:
    """A parsed mapping, the name of its file, and the line (from 1) of each key and value by path."""

    name: str
    data: dict[str, Any]
    key_lines: dict[Path, int]
    value_lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """Return the line of the key at `path`; for a path that is not there, that of its nearest parent."""
        while path and path not in self.key_lines and path not in self.value_lines:
            path = path[:-1]
        return self.key_lines.get(path, self.value_lines.get(path, 1))


def parse_yaml_mapping(text: str, name: str) -> YamlSource:
    """Parse `text`, which must hold one mapping with text keys, each once, without aliases.

    :raises SpecError: for anything else; it names the file and the line.
    """
    if len(text.encode("utf-8", "surrogatepass")) > SIZE_LIMIT_BYTES:
        raise SpecError(
            f"{name} is too large for a release file",
            expected=f"at most {SIZE_LIMIT_BYTES // 1024} KiB",
            remedy="Check that this is the file you meant.",
        )
    loader: _CoreLoader | None = None
    try:
        loader = _CoreLoader(text)
        root = loader.get_single_node()
        reader = _Reader(name)
        reader.visit(root, ())
        data = loader.construct_document(root)
    except yaml.YAMLError as error:
        raise _syntax_error(error, name) from error
    except RecursionError as error:
        raise SpecError(f"{name} is nested too deeply to be a release file") from error
    except ValueError as error:
        # A number of thousands of digits: the pattern of numbers takes it, Python does not.
        raise SpecError(
            f"{name} has a number that cannot be read", found=str(error), remedy="Write fewer digits."
        ) from error
    finally:
        if loader is not None:
            loader.dispose()
    return YamlSource(name, data, reader.key_lines, reader.value_lines)


class _Reader:
    """Walk the tree of nodes once: note the lines, and refuse what a release file has no use for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key_lines: dict[Path, int] = {}
        self.value_lines: dict[Path, int] = {}
        self._seen: set[int] = set()

    def visit(self, node: yaml.Node | None, path: Path) -> None:
        if node is None or (not path and not isinstance(node, yaml.MappingNode)):
            raise SpecError(
                f"{self.name} is not a release file",
                expected="a mapping of keys to values, such as `model: digits`",
                found="nothing" if node is None else f"a {node.tag.removeprefix(_PREFIX)}",
            )
        line = node.start_mark.line + 1
        if id(node) in self._seen:
            raise self._refusal(line, "uses a YAML alias (*)", "Write the value out again.")
        if len(path) > DEPTH_LIMIT:
            raise self._refusal(line, "is nested too deeply", "A release file has four levels at most.")
        if node.tag not in _PLAIN_TAGS or not _PATTERNS.get(node.tag, _ANYTHING).fullmatch(str(node.value)):
            raise self._refusal(line, f"uses the YAML tag {node.tag}", "Remove the tag.")
        self._seen.add(id(node))
        self.value_lines[path] = line
        if isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, (*path, index))

    def _visit_mapping(self, node: yaml.MappingNode, path: Path) -> None:
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_PREFIX}str":
                raise self._refusal(line, "has a key that is not text", "Put the key in quotes.")
            key_path = (*path, str(key_node.value))
            if key_path in self.key_lines:
                first = self.key_lines[key_path]
                raise self._refusal(
                    line,
                    f"has the key `{dotted(key_path)}` a second time (first in line {first})",
                    "Keep one of the two.",
                )
            self.key_lines[key_path] = line
            self.visit(value_node, key_path)

    def _refusal(self, line: int, what: str, remedy: str) -> SpecError:
        return SpecError(f"{self.name}, line {line}: the file {what}", remedy=remedy)


def dotted(path: Path) -> str:
    """Write a path as people do: `rollout.steps[1].weight`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _syntax_error(error: yaml.YAMLError, name: str) -> SpecError:
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}" if mark is not None else ""
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return SpecError(
        f"{name}{where}: this is not valid YAML",
        expected="one YAML mapping",
        found=str(problem),
        remedy="Look at the indentation, the colons and the quotes around that line.",
    )
