"""What has landed and starts nothing: why, and what to do."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway_core.errors import UserError
from slipway_core.intake import IncomingVersion, ReadyFile, parse_ready
from slipway_core.read_model.documents import ModelDocument, VersionLine
from slipway_core.read_model.landed import (
    Folder,
    Landed,
    LandedProblem,
    LandedVersion,
    Needed,
    folder_problem,
    foreign_problem,
    require_landed,
    stray_problem,
)
from slipway_core.record.arrivals import near_marker
from slipway_core.triton_config.pbtxt import from_pbtxt

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
NEEDED = Needed(("model.onnx",))
GOOD = json.dumps({"model": "digits", "version": 7}).encode()


def _ready(content: bytes) -> ReadyFile | UserError:
    try:
        return parse_ready(content, IncomingVersion("digits", 7))
    except UserError as error:
        return error


def _folder(content: bytes | None = GOOD, version: int = 7, **changed: Any) -> Folder:
    names = {"model.onnx"} | (set() if content is None else {"ready.json"})
    values: dict[str, Any] = {
        "version": version,
        "names": frozenset(names),
        "written_at": NOW - timedelta(hours=1),
        "ready": None if content is None else _ready(content),
        "ready_at": None if content is None else NOW - timedelta(hours=1),
    }
    return Folder(**values | changed)


def _document(*versions: int, live: int | None = None, **changed: Any) -> ModelDocument:
    lines = [
        VersionLine(
            model="digits",
            version=one,
            release_id=f"digits-{one}",
            **{"outcome": "failed", "started_at": NOW - timedelta(days=1)} | changed,
        )
        for one in sorted(versions, reverse=True)
    ]
    return ModelDocument(model="digits", written_at=NOW, versions=tuple(lines), live_version=live)


def _problem(
    folder: Folder, document: ModelDocument | None = None, needed: Needed | UserError = NEEDED
) -> LandedProblem | None:
    return folder_problem("digits", folder, document, needed=needed, now=NOW)


def test_a_whole_upload_has_no_problem() -> None:
    """Nor one with the byte order mark that Notepad and PowerShell write before UTF-8: the rest is what counts."""
    assert _problem(_folder()) is None
    assert _problem(_folder(b"\xef\xbb\xbf" + GOOD)) is None


@pytest.mark.parametrize(
    ("content", "told", "remedy"),
    [
        (gzip.compress(GOOD, mtime=0), "gzip", "without compression"),
        (GOOD.decode().encode("utf-16"), "UTF-16", "UTF-8"),
        (GOOD.decode().encode("utf-16-le"), "UTF-16", "UTF-8"),
        (GOOD.decode().encode("utf-16-be"), "UTF-16", "UTF-8"),
        (b"PK\x03\x04" + GOOD, "ZIP", "the file itself"),
        (b" \n", "an empty file", "write it whole"),
        (b"{'model': 'digits'}", "not valid", "ready.json"),
        (b'{"model": "digits", "version": 8}', "another version", "ready.json"),
        (b'{"model": "digits", "version": 7, "acuracy": 1}', "acuracy", "accuracy"),
    ],
    ids=["gzip", "utf16", "utf16-le", "utf16-be", "zip", "empty", "quotes", "other-version", "unknown-key"],
)
def test_a_marker_that_cannot_be_read_says_what_it_is(content: bytes, told: str, remedy: str) -> None:
    """The encoding, the compression or the key at fault, and what to do."""
    problem = _problem(_folder(content))
    assert problem is not None
    assert problem.version == 7
    assert problem.blocks
    assert told in problem.reason
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    "name",
    [
        "Ready.json",
        "READY.JSON",
        "ready.JSON",
        "ready.json.txt",
        "ready.json.gz",
        "ready.jsn",
        "raedy.json",
        "ready,json",
        "ready",
        "ready.txt",
        "7/ready.json",
        "ready.json/",
    ],
)
def test_a_near_name_of_the_marker_is_named(name: str) -> None:
    """A person sees what was uploaded in place of ready.json; nothing else is told of the folder."""
    assert near_marker(["model.onnx", name]) == name
    assert near_marker(["model.onnx", name, "ready.json"]) is None
    problem = _problem(_folder(None, names=frozenset({"model.onnx", name})))
    assert problem is not None
    assert name in problem.reason
    assert "incoming/digits/7/ready.json" in problem.remedy


@pytest.mark.parametrize("name", ["model.onnx", "config.pbtxt", "readme.md", "labels.json", "golden.parquet"])
def test_other_files_are_no_markers(name: str) -> None:
    """What lies beside a marker is not taken for one."""
    assert near_marker([name]) is None


def test_an_upload_that_goes_on_is_left_alone_and_one_that_stopped_is_told() -> None:
    """Training may still write; ten minutes after the last object it does not."""
    assert _problem(_folder(None, written_at=NOW - timedelta(minutes=2))) is None
    problem = _problem(_folder(None))
    assert problem is not None
    assert problem.reason == "ready.json is missing"


def test_what_the_release_would_refuse_at_once_is_told() -> None:
    """A file that lacks, a configuration that cannot be read, a release file that is not there."""
    lacks = _problem(_folder(names=frozenset({"ready.json"})))
    assert lacks is not None
    assert "model.onnx" in lacks.reason
    with pytest.raises(UserError) as caught:
        from_pbtxt("max_batch_size: eight", "incoming/digits/7/config.pbtxt")
    broken = _problem(_folder(configs={"config.pbtxt": caught.value}))
    assert broken is not None
    assert "config.pbtxt" in broken.reason
    missing = _problem(_folder(), needed=UserError("there is no release file for digits", remedy="write one"))
    assert missing is not None
    assert "no release file" in missing.reason


def test_an_older_version_than_the_live_one_says_how_a_person_starts_it() -> None:
    """It is not refused for good: nothing starts it by itself."""
    problem = _problem(_folder(), _document(9, live=9, standing="promoted"))
    assert problem is not None
    assert not problem.blocks
    assert "newer version, 9, is live" in problem.reason
    assert "slipway release digits 7 --force" in problem.remedy
    started = _problem(_folder(), _document(8))
    assert started is not None
    assert "newer version, 8, was started" in started.reason
    assert "--force" not in started.remedy


def test_what_a_record_tells_of_is_left_to_it_unless_it_was_uploaded_anew() -> None:
    """A failed release's ready.json that was written again, and broken, is told."""
    assert _problem(_folder(b"{", ready_at=NOW - timedelta(days=2)), _document(7)) is None
    again = _problem(_folder(b"{"), _document(7))
    assert again is not None
    assert _problem(_folder(b"{"), _document(7, standing="promoted")) is None


@pytest.mark.parametrize(
    ("stray", "folder"),
    [
        ("incoming/digits/v3/", "incoming/digits/3/"),
        ("incoming/digits/007/", "incoming/digits/7/"),
        ("incoming/digits/latest/", "incoming/digits/VERSION/"),
        ("incoming/digits/Ready.json", "incoming/digits/VERSION/"),
        ("incoming/digits/ready.json", "incoming/digits/VERSION/"),
    ],
    ids=["v3", "zeros", "word", "near-marker", "marker"],
)
def test_a_folder_that_is_no_version_says_where_to_upload(stray: str, folder: str) -> None:
    """With the number that was meant, where there is one."""
    problem = stray_problem("digits", stray)
    assert problem is not None
    assert problem.version is None
    assert folder in problem.remedy


def test_what_desktops_leave_is_no_upload() -> None:
    """Nobody is told of it; a folder that can be no model's is."""
    assert stray_problem("digits", "incoming/digits/.DS_Store") is None
    assert stray_problem("digits", "incoming/digits/7_$folder$") is None
    assert "not a valid model name" in foreign_problem("incoming/My_Model/").reason


def test_a_configuration_counts_where_a_release_reads_it() -> None:
    """Beside the model, or in the folders of a repository; not wherever else a file has that name."""
    assert NEEDED.reads_config("config.pbtxt")
    assert not NEEDED.reads_config("assets/config.pbtxt")
    repository = Needed((), "repository/", is_folder=True)
    assert repository.reads_config("repository/head/config.pbtxt")
    assert not repository.reads_config("repository/head/1/config.pbtxt")
    assert not repository.reads_config("config.pbtxt")


def test_what_has_not_landed_is_refused() -> None:
    """By name, with what has landed; what is not known whole is left to the workflow."""
    some = Landed(model="digits", versions=(LandedVersion(version=3, is_complete=True),))
    require_landed(some, 3)
    with pytest.raises(UserError, match="version 4 of 'digits' is not uploaded") as caught:
        require_landed(some, 4)
    assert caught.value.found == "uploaded: 3"
    require_landed(some.model_copy(update={"is_whole": False}), 4)
    partly = Landed(model="digits", versions=(LandedVersion(version=4, is_complete=False),))
    with pytest.raises(UserError, match="not uploaded completely"):
        require_landed(partly, 4)
    broken = LandedProblem(
        model="digits", place="incoming/digits/3/", version=3, reason="gzip", remedy="again"
    )
    with pytest.raises(UserError, match="cannot be released"):
        require_landed(some.model_copy(update={"unusable": (broken,)}), 3)
    require_landed(some.model_copy(update={"unusable": (broken.model_copy(update={"blocks": False}),)}), 3)
