"""The proposed change: the release file's text with another setting, its comments kept, and the difference to it."""

from __future__ import annotations

import difflib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.tuning.settings import Setting

_KINDS = {"KIND_GPU": "gpu", "KIND_AUTO": "auto", "KIND_MODEL": "model"}
# How people indent: mappings, lists and the hyphen of these. The file's own way is the one that changes it least.
_INDENTS = ((2, 4, 2), (2, 2, 0), (4, 6, 4), (4, 4, 2), (4, 4, 0))
_WIDEST_LINE = 2**16


@dataclass(frozen=True)
class ProposedChange:
    """A release file as it would be.

    :param text: the whole new text.
    :param diff: the unified diff, as `patch` and `git apply` take it; empty: nothing changes.
    """

    text: str
    diff: str


def propose_change(text: str, path: str, setting: Setting, config: Mapping[str, Any]) -> ProposedChange:
    """Return the change of a release file that makes its `serving` say a setting; all else stays as it is.

    :param text: the release file.
    :param path: what the diff calls it.
    :param config: the published configuration, which says on what the instances run where the file does not.
    :raises SpecError: the text is no release file, or would be none any more.
    """
    parse_release_spec(text, path)
    tries: list[_Try] = []
    for indents in _INDENTS:
        tries.append(_Try.of(text, setting, config, *indents))
        if not tries[-1].foreign_lines:
            break
    changed = min(tries, key=_Try.cost).text
    before, after = (one.splitlines(keepends=True) for one in (text, changed))
    parse_release_spec(changed, path)
    diff = difflib.unified_diff(_ended(before), _ended(after), f"a/{path}", f"b/{path}")
    return ProposedChange(changed, "".join(diff))


@dataclass(frozen=True)
class _Try:
    """The changed text under one guess of how the file is indented."""

    text: str
    changed_lines: int
    foreign_lines: int

    @classmethod
    def of(
        cls, text: str, setting: Setting, config: Mapping[str, Any], mapping: int, sequence: int, offset: int
    ) -> _Try:
        yaml = _yaml(mapping, sequence, offset)
        document = yaml.load(text)
        unchanged = _dumped(yaml, document)
        if document.get("serving") is None:
            document["serving"] = {}
        _set_batching(document["serving"], setting, config)
        _set_instances(document["serving"], setting, config)
        whole = _dumped(yaml, document)
        moved = _transferred(text, unchanged, whole)
        # Lines of two ways to indent may not fit together; then the whole file is in the library's.
        found = moved if _means(moved) == _means(whole) else whole
        return cls(found, _distance(text, found), _distance(text, unchanged))

    def cost(self) -> tuple[int, int]:
        """What makes a guess worse: lines that change, then lines that the library would write otherwise."""
        return self.changed_lines, self.foreign_lines


def _means(text: str) -> object:
    """Return what a release file says; None: it is invalid."""
    try:
        return parse_release_spec(text, "the changed file").model_dump()
    except SpecError:
        return None


def _yaml(mapping: int, sequence: int, offset: int) -> Any:
    from ruamel.yaml import YAML  # needed by the task that proposes alone

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _WIDEST_LINE
    yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
    # An empty value is otherwise what it writes for null.
    yaml.representer.add_representer(type(None), _as_null)
    return yaml


def _as_null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def _dumped(yaml: Any, document: Any) -> str:
    target = io.StringIO()
    yaml.dump(document, target)
    return target.getvalue()


def _transferred(text: str, unchanged: str, changed: str) -> str:
    """Return `text` with the lines changed that differ between two texts of the library's.

    It writes a file in its own way, such as with other spaces, but line by line. Where it does not, its text is taken.
    """
    lines, before, after = (one.splitlines(keepends=True) for one in (text, unchanged, changed))
    if len(lines) != len(before):
        return changed
    result: list[str] = []
    for kind, begin, end, new_begin, new_end in difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        result += lines[begin:end] if kind == "equal" else after[new_begin:new_end]
    return "".join(result)


def _set_batching(serving: Any, setting: Setting, config: Mapping[str, Any]) -> None:
    """Write the batching as `serving.dynamic_batching`; what else is written there stays."""
    if setting.max_queue_delay_us is None:
        serving["dynamic_batching"] = None
        return
    if serving.get("dynamic_batching") is None:
        serving["dynamic_batching"] = {}
    batching, sizes = serving["dynamic_batching"], list(setting.preferred_batch_sizes)
    batching["max_queue_delay_us"] = setting.max_queue_delay_us
    published = (config.get("dynamic_batching") or {}).get("preferred_batch_size")
    if sizes or published or batching.get("preferred_batch_sizes"):
        batching["preferred_batch_sizes"] = _flow(sizes)


def _set_instances(serving: Any, setting: Setting, config: Mapping[str, Any]) -> None:
    """Write the number of instances into the one group of `serving.instances`."""
    if setting.instances is None:
        return
    if serving.get("instances"):
        serving["instances"][0]["count"] = setting.instances
        return
    group = (config.get("instance_group") or [{}])[0]
    entry: dict[str, Any] = {
        "kind": _KINDS.get(str(group.get("kind")), "cpu"),
        "count": setting.instances,
    }
    if group.get("gpus"):
        entry["gpus"] = list(group["gpus"])
    serving["instances"] = [entry]


def _flow(values: list[int]) -> Any:
    """Return a list that is written on one line."""
    from ruamel.yaml.comments import CommentedSeq

    sequence = CommentedSeq(values)
    sequence.fa.set_flow_style()
    return sequence


def _distance(text: str, other: str) -> int:
    """Return how many lines are in one of the texts alone."""
    diff = difflib.unified_diff(text.splitlines(), other.splitlines(), n=0, lineterm="")
    return sum(line.startswith(("-", "+")) for line in diff)


def _ended(lines: list[str]) -> list[str]:
    """Return the lines, the last one with its end too."""
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]
