"""How the repository meets contributors: workflows, issue forms, hooks, changelog fragments, and releases."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import check_jsonschema
import jsonschema
import pytest
import yaml

from slipway_infrastructure.images.__main__ import main as push_images
from slipway_sandbox.host.ports import FREE_PORT_RANGE

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
SCHEMAS = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((GITHUB / "workflows").iterdir())
FORMS = [GITHUB / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "feature.yml")]
# The questions of a form that have an answer; `markdown` is only shown.
ASKING = {"checkboxes", "dropdown", "input", "textarea"}


def by_name(path: Path) -> str:
    """Return the id of a test's case: the name of its file."""
    return path.name


def read(path: Path) -> Any:
    """Return what a YAML file says. The key `on` of a workflow is `True` in YAML 1.1."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def check(document: object, schema: str) -> None:
    """Check a document against a schema of GitHub's that check-jsonschema brings; raises ValidationError."""
    jsonschema.validate(document, json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8")))


def commands(workflow: Mapping[str, Any]) -> list[str]:
    """Return the commands of all steps of a workflow."""
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The program that checks a release."""
    spec = importlib.util.spec_from_file_location("release_program", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", WORKFLOWS, ids=by_name)
def test_a_workflow_is_valid(path: Path) -> None:
    """GitHub accepts each workflow; no job runs without a limit, and none may write unless it says so."""
    workflow = read(path)
    check(workflow, "github-workflows")
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "timeout-minutes" not in job] == []


def test_the_workflow_runs_what_developers_run() -> None:
    """CI is `.ci/run` for pull requests too, and has time for it."""
    workflow = read(GITHUB / "workflows" / "ci.yaml")
    assert {"push", "pull_request"} <= set(workflow["on"])
    assert ".ci/run" in commands(workflow)
    assert workflow["jobs"]["ci"]["timeout-minutes"] == 90


def test_a_release_is_checked_before_it_is_published() -> None:
    """A tag starts the workflow; tests and checks come first, and publishing stores no password."""
    workflow = read(GITHUB / "workflows" / "release.yaml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert {"make test ONLY=unit", 'make release-check TAG="$GITHUB_REF_NAME"'} <= set(commands(workflow))
    jobs = workflow["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["release"]["needs"] == "publish"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "password" not in (GITHUB / "workflows" / "release.yaml").read_text(encoding="utf-8").replace(
        "no password", ""
    )


def test_images_are_pushed_without_a_stored_key() -> None:
    """Only where a registry is named, by the role that trusts this event of the repository."""
    workflow = read(GITHUB / "workflows" / "images.yaml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    (job,) = workflow["jobs"].values()
    assert job["if"] == "vars.SLIPWAY_REGISTRY != ''"
    assert job["permissions"] == {"contents": "read", "id-token": "write"}
    assert "secrets." not in (GITHUB / "workflows" / "images.yaml").read_text(encoding="utf-8")
    (command,) = commands(workflow)
    assert push_images(_filled_in(shlex.split(command)[3:])) == 0


def _filled_in(words: list[str]) -> list[str]:
    """Return the words of the workflow's command with values in place of its variables, as a dry run."""
    values = {"$REGISTRY": "registry.example.com/slipway", "${GITHUB_REF_NAME#v}": "1.0.0", "$IMAGES": ""}
    values["$RELEASE"] = "26.07"
    own = ["--build-arg", f"tensorrt-llm:TENSORRT_LLM_COMMIT={'0' * 40}", "--dry-run"]
    return [values.get(word, word) for word in words] + own


@pytest.mark.parametrize("path", WORKFLOWS, ids=by_name)
def test_every_make_target_of_a_workflow_exists(path: Path) -> None:
    """A workflow calls no target that the Makefile lacks."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    called = {name for command in commands(read(path)) for name in re.findall(r"^make ([a-z-]+)", command)}
    assert called - set(targets) == set()


@pytest.mark.parametrize("path", FORMS, ids=by_name)
def test_an_issue_form_is_valid(path: Path) -> None:
    """GitHub accepts each form; its questions have ids of their own, and at least one must be answered."""
    form = read(path)
    check(form, "github-issue-forms")
    assert {"name", "description", "body"} <= form.keys()
    asked = [field for field in form["body"] if field["type"] in ASKING]
    names = [field["id"] for field in asked]
    assert len(set(names)) == len(names)
    assert [field["id"] for field in asked if field.get("validations", {}).get("required")]


def test_the_issue_chooser_is_valid() -> None:
    """GitHub accepts the configuration of the chooser."""
    check(read(GITHUB / "ISSUE_TEMPLATE" / "config.yml"), "github-issue-config")


def test_every_owned_path_exists() -> None:
    """CODEOWNERS names no file or folder that moved away."""
    lines = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert paths[0] == "*"
    assert [path for path in paths[1:] if not (ROOT / path.lstrip("/")).exists()] == []


@pytest.mark.parametrize(
    ("repository", "package"), [("ruff-pre-commit", "ruff"), ("pre-commit-hooks", "pre-commit-hooks")]
)
def test_the_hooks_are_those_of_the_environment(repository: str, package: str) -> None:
    """A hook that pre-commit installs has the version that `make lint` uses."""
    repositories = read(ROOT / ".pre-commit-config.yaml")["repos"]
    (revision,) = [entry["rev"] for entry in repositories if entry["repo"].endswith(f"/{repository}")]
    pinned = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert re.search(rf"^{package}=={re.escape(revision.removeprefix('v'))} ", pinned, re.MULTILINE)


def test_the_dev_container_sets_the_project_up() -> None:
    """The container runs `make setup` on a Python that the project supports, and forwards the sandbox's free ports."""
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == "make setup"
    assert re.search(r"python:3\.1[12]\b", container["image"])
    assert list(container["portsAttributes"]) == [f"{FREE_PORT_RANGE.start}-{FREE_PORT_RANGE.stop - 1}"]


TOWNCRIER = PROJECT["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in TOWNCRIER["type"]]
FRAGMENT = re.compile(rf"(?:\d+|\+[a-z0-9-]+)\.(?:{'|'.join(KINDS)})(?:\.\d+)?\.md")


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("123.fixed.md", True),
        ("123.fixed.1.md", True),
        ("+drain.security.md", True),
        ("drain.fixed.md", False),
        ("123.bugfix.md", False),
        ("123.fixed.rst", False),
    ],
)
def test_the_name_of_a_fragment(name: str, valid: bool) -> None:
    """A fragment is named NUMBER.TYPE.md or +WORD.TYPE.md."""
    assert bool(FRAGMENT.fullmatch(name)) is valid


def test_every_fragment_will_be_in_the_changelog() -> None:
    """No fragment has a name that towncrier would skip, or no text; the page of fragments lists each type."""
    folder = ROOT / TOWNCRIER["directory"]
    fragments = [path for path in sorted(folder.iterdir()) if path.name not in TOWNCRIER["ignore"]]
    assert [path.name for path in fragments if not FRAGMENT.fullmatch(path.name)] == []
    assert [path.name for path in fragments if not path.read_text(encoding="utf-8").strip()] == []
    listed = re.findall(r"^\| `(\w+)` \|", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == KINDS
    assert (ROOT / TOWNCRIER["filename"]).read_text(encoding="utf-8").count(TOWNCRIER["start_string"]) == 1


def test_the_project_can_be_released(release: ModuleType) -> None:
    """The changelog has a dated section for the version in pyproject.toml, and the release notes are its text."""
    version = PROJECT["project"]["version"]
    assert release.changelog_section(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


NEWEST = "# Changelog\n\n## [0.2.0] - 2026-12-01\n\nNew.\n\n## [0.1.0] - 2026-11-26\n\nOld.\n"


def test_the_release_notes_are_one_section(release: ModuleType) -> None:
    """They end before the next version's heading."""
    assert release.changelog_section("0.2.0", NEWEST) == "New."


@pytest.mark.parametrize(
    ("version", "changelog", "problem"),
    [
        ("0.3.0", NEWEST, "0 sections"),
        ("0.1.0", NEWEST, "must be the first"),
        ("0.2.0", NEWEST.replace(" - 2026-12-01", ""), "needs a date"),
        ("0.2.0", NEWEST.replace("2026-12-01", "soon"), "needs a date"),
        ("0.2.0", NEWEST.replace("New.", ""), "is empty"),
    ],
    ids=["missing", "not the newest", "no date", "no real date", "empty"],
)
def test_a_changelog_that_is_not_ready(
    release: ModuleType, version: str, changelog: str, problem: str
) -> None:
    """The check names what the changelog lacks."""
    with pytest.raises(release.ReleaseError, match=problem):
        release.changelog_section(version, changelog)


def test_a_tag_must_be_the_version(release: ModuleType) -> None:
    """A tag of another version, or without its `v`, releases nothing."""
    release.check_tag("v0.1.0", "0.1.0")
    for tag in ("0.1.0", "v0.1.1"):
        with pytest.raises(release.ReleaseError, match=r"tag the commit as v0\.1\.0"):
            release.check_tag(tag, "0.1.0")


@pytest.mark.parametrize("versions", [{"a": "0.1"}, {"a": "0.1.0", "b": "0.2.0"}], ids=["short", "different"])
def test_all_distributions_have_one_version(release: ModuleType, versions: dict[str, str]) -> None:
    """One tag releases all of them, so their versions are the same, and have three numbers."""
    assert release.common_version({"a": "0.1.0", "b": "0.1.0"}) == "0.1.0"
    with pytest.raises(release.ReleaseError, match=r"[Vv]ersion"):
        release.common_version(versions)


def test_fragments_hold_a_release_up(release: ModuleType, tmp_path: Path) -> None:
    """A change whose fragment is not in the changelog yet would be released without a word."""
    (tmp_path / "README.md").write_text("How to write one.")
    release.check_fragments(tmp_path)
    (tmp_path / "12.fixed.md").write_text("Fixed.")
    with pytest.raises(release.ReleaseError, match=r"12\.fixed\.md"):
        release.check_fragments(tmp_path)
