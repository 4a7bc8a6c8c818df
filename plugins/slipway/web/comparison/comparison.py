"""What differs between two versions: facts and figures, configuration, files, tensors. Values in, values out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from slipway.web import wording
from slipway.web.comparison.measured import Measured
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.read_model.documents import VersionLine
from slipway_core.tensors import differences as signature_differences
from slipway_core.written_numbers import number

FILES_SHOWN = 200
LINES_SHOWN = 2000
_METADATA_SHOWN = 50
_TEXT_SHOWN = 300


@dataclass(frozen=True)
class Side:
    """One of the two versions.

    :param line: what the read model says of it; None: nothing.
    :param manifest: what was published; None: it was not, or its files are deleted.
    :param absent: why there is no manifest, in words.
    :param configs: the text of each model's config.pbtxt, by the model's name.
    :param figures: what its gates measured, by name.
    :param stable_figures: what its own gates measured of the version that was stable then, by the same names.
    """

    version: int
    line: VersionLine | None
    manifest: Manifest | None
    absent: str
    configs: Mapping[str, str]
    figures: Mapping[str, Measured] = field(default_factory=dict)
    stable_figures: Mapping[str, Measured] = field(default_factory=dict)


@dataclass(frozen=True)
class FactRow:
    """A fact about both versions, as text; "" where one does not have it."""

    name: str
    before: str
    after: str

    @property
    def differs(self) -> bool:
        """Whether the two versions differ in it."""
        return self.before != self.after


@dataclass(frozen=True)
class TextLine:
    """A line of a text of both: `kind` is `same`, `gone` or `new`."""

    kind: Literal["same", "gone", "new", "left_out"]
    text: str


@dataclass(frozen=True)
class FileRow:
    """A file of either version: its sizes in bytes, None where the version does not have it."""

    path: str
    before_bytes: int | None
    after_bytes: int | None
    kind: Literal["same", "changed", "gone", "new"]


@dataclass(frozen=True)
class VersionComparison:
    """Everything that the page shows. `files_left_out` counts further files that are the same or do not fit."""

    facts: tuple[FactRow, ...]
    figures: tuple[FactRow, ...]
    configs: Mapping[str, tuple[TextLine, ...]]
    files: tuple[FileRow, ...]
    files_left_out: int
    tensors: tuple[str, ...]


def compare(before: Side, after: Side) -> VersionComparison:
    """Return what differs between two versions of one model."""
    files = list(_files(before.manifest, after.manifest))
    shown = [row for row in files if row.kind != "same"] or files
    return VersionComparison(
        facts=tuple(_rows(_facts(before), _facts(after))),
        figures=tuple(_rows(_texts(before.figures), _texts(after.figures))),
        configs={
            name: tuple(_text_lines(before.configs.get(name, ""), after.configs.get(name, "")))
            for name in sorted({*before.configs, *after.configs})
        },
        files=tuple(shown[:FILES_SHOWN]),
        files_left_out=len(files) - len(shown[:FILES_SHOWN]),
        tensors=tuple(signature_differences(before.manifest.signature, after.manifest.signature))
        if before.manifest and after.manifest
        else (),
    )


def _texts(figures: Mapping[str, Measured]) -> dict[str, str]:
    return {name: one.text for name, one in figures.items()}


def _rows(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[FactRow]:
    for name in dict.fromkeys((*before, *after)):
        yield FactRow(name, before.get(name, ""), after.get(name, ""))


def _facts(side: Side) -> dict[str, str]:
    return _of_line(side.line) | _of_manifest(side.manifest)


def _of_line(line: VersionLine | None) -> dict[str, str]:
    if line is None:
        return {}
    approved = ", ".join(f"{one.by} (before the {one.before})" for one in line.approvals)
    requests = line.candidate_requests
    return {
        "outcome": line.outcome.replace("_", " "),
        "reason": line.reason,
        "started by": line.triggered_by,
        "approved by": approved,
        "started at": wording.utc(line.started_at),
        "took": wording.duration(line.seconds),
        "requests of users in the canary": "" if requests is None else wording.amount(requests),
        "errors of users in the canary": ""
        if line.candidate_errors is None
        else wording.amount(line.candidate_errors),
    }


def _of_manifest(manifest: Manifest | None) -> dict[str, str]:
    if manifest is None:
        return {}
    source = manifest.source
    facts = {
        "size of the files": wording.size(sum(entry.size_bytes for entry in manifest.files.values())),
        "files": wording.amount(len(manifest.files)),
        "dataset version": source.dataset_version or "",
        "accuracy reported by training": "" if source.accuracy is None else number(source.accuracy, 6),
        "trained at": "" if source.trained_at is None else wording.utc(source.trained_at),
        "framework": source.framework or "",
        "checkpoint": "" if source.hub is None else f"{source.hub.name} at {source.hub.revision}",
        "published at": wording.utc(manifest.created_at),
        "published with Slipway": manifest.project_commit[:12] or manifest.project_version,
        "engines": ", ".join(one.gpu for one in manifest.engines),
    }
    facts |= {f"tool {name}": text[:_TEXT_SHOWN] for name, text in sorted(manifest.tools.items())}
    metadata = islice(sorted(source.metadata.items()), _METADATA_SHOWN)
    return facts | {f"training's {name}": str(value)[:_TEXT_SHOWN] for name, value in metadata}


def _text_lines(before: str, after: str) -> Iterator[TextLine]:
    left, right = before.splitlines()[:LINES_SHOWN], after.splitlines()[:LINES_SHOWN]
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for group in matcher.get_grouped_opcodes(6):
        if group[0][1] > 0:
            yield TextLine("left_out", "…")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (TextLine("same", line) for line in left[i1:i2])
                continue
            yield from (TextLine("gone", line) for line in left[i1:i2])
            yield from (TextLine("new", line) for line in right[j1:j2])


def _files(before: Manifest | None, after: Manifest | None) -> Iterator[FileRow]:
    left = {} if before is None else _by_role(before)
    right = {} if after is None else _by_role(after)
    for path in sorted({*left, *right}):
        one, other = left.get(path), right.get(path)
        if one is None or other is None:
            kind: Literal["same", "changed", "gone", "new"] = "new" if one is None else "gone"
        else:
            kind = "same" if one == other else "changed"
        yield FileRow(
            path,
            None if one is None else one.size_bytes,
            None if other is None else other.size_bytes,
            kind,
        )


def _by_role(manifest: Manifest) -> dict[str, FileEntry]:
    """Return the files by their paths, with VERSION in the place of the version's own folder."""
    own = f"/{manifest.version}/"
    return {path.replace(own, "/VERSION/", 1): entry for path, entry in manifest.files.items()}
