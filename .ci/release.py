"""Check a release before it is published: version, tag, changelog, and the packages themselves.

    python .ci/release.py check [--tag v0.1.0]     builds into dist/ and checks; `make release-check`
    python .ci/release.py notes 0.1.0              prints the changelog's section of that version

Every folder with a pyproject.toml that describes a project is one distribution, with a CHANGELOG.md beside it. All of
them have the same version and are released by the same tag.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
FRAGMENTS = ROOT / "changes"
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)((a|b|rc)\d+)?")
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
# What the project's own wheel holds: the packages of these folders, without the sandbox, which needs the whole project.
PACKAGES = re.compile(r"(?:plugins|include)/(?P<name>slipway(?!_sandbox)\w*/.+)(?<!\.md)")


class ReleaseError(Exception):
    """The release cannot be made as it is; the message says what to change."""


def tracked_files(root: Path = ROOT) -> list[str]:
    """Return the files that git knows and that exist, relative to the root."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return sorted(name for name in listing.stdout.split("\0") if name and (root / name).is_file())


def distributions(tracked: list[str]) -> dict[Path, dict[str, object]]:
    """Return the folder of each distribution, relative to the root, with the table `project` of its pyproject.toml."""
    files = [Path(name) for name in tracked if Path(name).name == "pyproject.toml"]
    tables = {file.parent: tomllib.loads((ROOT / file).read_text(encoding="utf-8")) for file in files}
    return {folder: table["project"] for folder, table in tables.items() if "project" in table}


def common_version(versions: dict[str, str]) -> str:
    """Return the version of all distributions. ReleaseError: they differ, or it isn't one that Slipway uses."""
    if len(set(versions.values())) != 1:
        raise ReleaseError(f"All distributions need the same version; they have {versions}.")
    version = next(iter(versions.values()))
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"Version {version!r} is not MAJOR.MINOR.PATCH, as in 0.1.0 or 0.2.0rc1.")
    return version


def check_tag(tag: str, version: str) -> None:
    """Check that the tag is the version with a leading `v`. ReleaseError: it isn't."""
    if tag != f"v{version}":
        raise ReleaseError(
            f"The tag is {tag}, but pyproject.toml says {version}: tag the commit as v{version}."
        )


def changelog_section(version: str, changelog: str) -> str:
    """Return what the changelog says about a version, without the heading.

    ReleaseError: there is no such section, it isn't the newest, it has no date, or it is empty.
    """
    headings = list(HEADING.finditer(changelog))
    found = [heading for heading in headings if heading["version"] == version]
    if len(found) != 1:
        raise ReleaseError(
            f"The changelog has {len(found)} sections '## [{version}] - DATE', and needs one: "
            f"run `make changelog VERSION={version}`."
        )
    heading = found[0]
    if heading is not headings[0]:
        raise ReleaseError(f"The changelog: the section of {version} must be the first one.")
    try:
        datetime.date.fromisoformat(heading["date"] or "")
    except ValueError:
        raise ReleaseError(
            f"The changelog: the heading of {version} needs a date, as in 2026-11-26."
        ) from None
    end = headings[1].start() if len(headings) > 1 else len(changelog)
    section = changelog[heading.end() : end].strip()
    if not section:
        raise ReleaseError(f"The changelog: the section of {version} is empty.")
    return section


def check_fragments(folder: Path = FRAGMENTS) -> None:
    """Check that no fragment waits for a release. ReleaseError: some do."""
    waiting = sorted(path.name for path in folder.iterdir() if path.name != "README.md")
    if waiting:
        raise ReleaseError(
            f"Fragments in changes/ are not in the changelog yet: {', '.join(waiting)}. Run `make changelog`."
        )


def build(folders: list[Path], tracked: list[str], into: Path) -> None:
    """Build each source distribution, and from it the wheel, out of a copy of the tracked files alone.

    What is left of earlier builds can't get into the packages this way. Nothing is downloaded.
    """
    shutil.rmtree(into, ignore_errors=True)
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "build", "--quiet", "--offline", "--no-build-isolation", "--python", sys.executable]
    with tempfile.TemporaryDirectory() as copy:
        for name in tracked:
            target = Path(copy) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        for folder in folders:
            subprocess.run([*command, "--out-dir", str(into), str(Path(copy) / folder)], check=True)


def check_wheel(wheel: Path, expected: set[str]) -> None:
    """Check that the wheel has exactly these files beside its metadata. ReleaseError: it doesn't."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    if expected != held:
        lacks, more = sorted(expected - held)[:5], sorted(held - expected)[:5]
        raise ReleaseError(
            f"{wheel.name} lacks {lacks or 'nothing'}, and should not hold {more or 'anything'}."
        )


def check(tag: str | None) -> None:
    """Check and build the release; the packages are in dist/ afterwards. ReleaseError: it can't be made."""
    tracked = tracked_files()
    projects = distributions(tracked)
    version = common_version({str(project["name"]): str(project["version"]) for project in projects.values()})
    print(f"version    {version}")
    if tag is not None:
        check_tag(tag, version)
        print(f"tag        {tag}")
    for folder in projects:
        changelog = folder / "CHANGELOG.md"
        section = changelog_section(version, (ROOT / changelog).read_text(encoding="utf-8"))
        print(f"changelog  {changelog}: {len(section.splitlines())} lines")
    check_fragments()
    build(list(projects), tracked, DIST)
    for folder, project in projects.items():
        stem = f"{str(project['name']).replace('-', '_')}-{version}"
        wheel, source = DIST / f"{stem}-py3-none-any.whl", DIST / f"{stem}.tar.gz"
        if folder == Path():
            check_wheel(wheel, {match["name"] for name in tracked if (match := PACKAGES.fullmatch(name))})
        subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source)], check=True
        )
        for path in (wheel, source):
            print(f"package    dist/{path.name}, {path.stat().st_size / 1024:,.0f} KiB")


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    parser = argparse.ArgumentParser(description="Check a release before it is published.")
    commands = parser.add_subparsers(dest="command", required=True)
    checked = commands.add_parser(
        "check", help="check version, tag and changelog; build and check the packages"
    )
    checked.add_argument("--tag", help="the tag of the release, for example v0.1.0")
    notes = commands.add_parser("notes", help="print the changelog's section of a version")
    notes.add_argument("version", help="for example 0.1.0")
    given = parser.parse_args(arguments)
    try:
        if given.command == "check":
            check(given.tag)
        else:
            print(changelog_section(given.version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(
            f"release: `{' '.join(map(str, error.cmd[:4]))} …` failed with exit code {error.returncode}.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
