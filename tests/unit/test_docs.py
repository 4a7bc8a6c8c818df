"""What the documents name must exist: paths, make targets, modules, variables, links. Their examples must be valid."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.figures import FIGURES
from slipway_core.intake import IncomingVersion, parse_ready
from slipway_core.publishing.variants import variant_names, with_variant
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from slipway_sandbox.host.images import IMAGES_VARIABLE
from slipway_sandbox.host.preflight import PORT_VARIABLES
from slipway_sandbox.host.settings import ROOT_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
INDEX = DOCS / "README.md"
SETTINGS = DOCS / "settings.md"
ARCHITECTURE = DOCS / "architecture.md"
BRING = DOCS / "bring-your-model.md"
DOCUMENTS = sorted(
    [
        README,
        *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")),
        ROOT / "changes" / "README.md",
        *DOCS.rglob("*.md"),
        *(ROOT / "include").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "plugins").rglob("*.md"),
    ]
)
README_LINES = 150
# Folders of the repository that documents point into. What lies in S3 or is made by a run begins otherwise.
FOLDERS = (
    "dags",
    "plugins",
    "include",
    "tests",
    "benchmarks",
    "docs",
    "examples",
    "changes",
    ".ci",
    ".devcontainer",
    ".github",
)
ROOT_FILES = re.compile(
    r"`((?:README|CHANGELOG|CODE_OF_CONDUCT|CONTRIBUTING|SECURITY)\.md|LICENSE|Makefile|pyproject\.toml|docker-compose\.yaml|requirements[a-z-]*\.txt"
    r"|\.env\.example|\.pre-commit-config\.yaml)`"
)
PATH = re.compile(
    rf"(?<![\w./:-])((?:{'|'.join(re.escape(name) for name in FOLDERS)})/(?:[\w.*-]+/?)*)", re.ASCII
)
CODE = re.compile(r"```.*?```|`[^`\n]+`|^ {4,}\S[^\n]*$", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
# `include/releases/MODEL.yaml`: a name in capitals is to be filled in by the reader.
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")
SOURCE_SUFFIXES = {".py", ".yaml", ".example"}

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def code_of(text: str) -> str:
    """What a document sets as code: spans, fenced blocks, indented blocks."""
    return "\n".join(match.group(0) for match in CODE.finditer(text))


def exists(path: str) -> bool:
    """Whether the repository has what a document calls `path`; placeholders and `*` stand for any name."""
    if (ROOT / path).exists():
        return True
    pattern = PLACEHOLDER.sub("*", path.rstrip("/"))
    return "*" in pattern and any(ROOT.glob(pattern))


def make_targets() -> set[str]:
    """Every target of the Makefile that people call."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))


def anchors_of(document: Path) -> set[str]:
    """The anchors of a document's headings, as renderers of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sources() -> Iterator[Path]:
    """The files in which a variable that a document names can be read."""
    for folder in ("dags", "plugins", "include", "benchmarks", "tests/support/containers"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in SOURCE_SUFFIXES)
    yield from (ROOT / "docker-compose.yaml", ROOT / ".env.example")


def links_of(document: Path) -> Iterator[tuple[Path, str]]:
    """Where a document's links within the repository lead: the file, and the anchor or an empty text."""
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        if not link.startswith(("https://", "http://", "mailto:")):
            target, _, anchor = link.partition("#")
            yield (document.parent / target).resolve() if target else document, anchor


def example(document: Path, language: str, beginning: str) -> str:
    """The document's one block in `language` that begins so."""
    blocks = [body for name, body in FENCE.findall(document.read_text(encoding="utf-8")) if name == language]
    (found,) = [body for body in blocks if body.startswith(beginning)]
    return str(found)


@documents
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    """A document names no file or folder that the repository lacks."""
    text = document.read_text(encoding="utf-8")
    named = {match.rstrip(".") for match in PATH.findall(text)} | set(ROOT_FILES.findall(text))
    assert [path for path in sorted(named) if not exists(path)] == []


@documents
def test_every_make_target_that_a_document_names_exists(document: Path) -> None:
    """A document tells nobody to call a make target that does not exist."""
    named = set(re.findall(r"\bmake ([a-z-]+)", code_of(document.read_text(encoding="utf-8"))))
    assert named - make_targets() == set()


def test_the_reference_of_settings_names_every_make_target() -> None:
    """Whatever `make help` lists has its row in docs/settings.md."""
    named = set(re.findall(r"`make ([a-z-]+)", SETTINGS.read_text(encoding="utf-8")))
    assert make_targets() - named == set()


def test_the_readme_stays_short() -> None:
    """The README is read to its end: what is longer belongs on a page of its own."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_the_images_are_counted() -> None:
    """README and docs/containers.md say of how many images some were built: those with a Dockerfile."""
    count = len(list((ROOT / "include" / "images").glob("*/Dockerfile")))
    word = {13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen"}[count]
    for page in (README, DOCS / "containers.md"):
        assert f"of the {word} images" in page.read_text(encoding="utf-8"), page


def test_every_page_is_named_by_the_index() -> None:
    """A newcomer who reads docs/README.md, to which the README leads, finds a link to every page."""
    assert INDEX in {path for path, _ in links_of(README)}
    named = {path for path, _ in links_of(INDEX)} | {INDEX}
    assert [str(page.relative_to(ROOT)) for page in sorted(DOCS.rglob("*.md")) if page not in named] == []


def test_every_picture_is_shown_somewhere() -> None:
    """No picture lies in docs/images/ that no document shows."""
    shown = {path for document in DOCUMENTS for path, _ in links_of(document)}
    assert [path.name for path in sorted((DOCS / "images").iterdir()) if path not in shown] == []


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]


def listed_contracts() -> list[tuple[str, str, str]]:
    """The rows of the table of contracts in docs/architecture.md: name, type, what it says."""
    section = ARCHITECTURE.read_text(encoding="utf-8").partition("### The contracts")[2].partition("\n#")[0]
    return re.findall(r"^\| ([^|]+?) \| `(\w+)` \| (.*?) \|$", section, re.MULTILINE)


def test_the_architecture_lists_the_contracts() -> None:
    """docs/architecture.md names each contract of import-linter in pyproject.toml, in order, and no other."""
    listed = [(name, kind) for name, kind, _ in listed_contracts()]
    assert listed == [(contract["name"], contract["type"]) for contract in CONTRACTS]


def test_the_architecture_shows_the_layers() -> None:
    """The row of a contract about layers names each layer, from top to bottom, as pyproject.toml has them."""
    shown = {name: says for name, kind, says in listed_contracts() if kind == "layers"}
    layers = {
        contract["name"]: " / ".join(
            ", ".join(f"`{module.strip()}`" for module in layer.split("|")) for layer in contract["layers"]
        )
        for contract in CONTRACTS
        if contract["type"] == "layers"
    }
    assert shown == layers


def test_the_architecture_names_every_package() -> None:
    """docs/architecture.md has a line for each package of the domain, of the plugin and of the sandbox."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    packages = [
        path.parent.relative_to(ROOT / folder).as_posix()
        for folder in ("include/slipway_core", "plugins/slipway", "include/slipway_sandbox")
        for path in (ROOT / folder).glob("*/__init__.py")
    ]
    assert packages
    assert [name for name in packages if not re.search(rf"^ +{name}/ +\S", text, re.MULTILINE)] == []


@documents
def test_every_module_that_a_document_runs_is_a_program(document: Path) -> None:
    """`python -m MODULE` in a document names a package with a `__main__`, or a module that is a program."""
    named = re.findall(r"python3? -m ((?:benchmarks|slipway)[\w.]*)", document.read_text(encoding="utf-8"))
    for module in named:
        folder = {"benchmarks": ROOT, "slipway": ROOT / "plugins"}.get(module.split(".")[0], ROOT / "include")
        path = folder / module.replace(".", "/")
        program = path.with_suffix(".py")
        is_program = program.exists() and "__main__" in program.read_text(encoding="utf-8")
        assert is_program or (path / "__main__.py").exists(), module


@documents
def test_relative_links_resolve(document: Path) -> None:
    """Every link within the repository leads to a file, and its anchor to a heading there."""
    for path, anchor in links_of(document):
        assert path.exists(), path
        assert path.is_relative_to(ROOT), path
        assert not anchor or anchor in anchors_of(path), f"{path}#{anchor}"


@documents
def test_every_variable_that_a_document_names_is_read_somewhere(document: Path) -> None:
    """A document names no SLIPWAY_ variable that nothing reads."""
    named = set(re.findall(r"`(SLIPWAY_[A-Z_]+)`", document.read_text(encoding="utf-8")))
    if not named:
        return
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    assert sorted(name for name in named if name not in code) == []


@documents
def test_code_fences_are_closed(document: Path) -> None:
    """Every fenced block that begins also ends."""
    fences = re.findall(r"^```", document.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0


@documents
def test_every_table_has_its_head(document: Path) -> None:
    """Rows without a head and its line of hyphens are shown as text; each row has as many cells as the head."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = table.splitlines()
        assert len(rows) > 2, table
        assert set(rows[1]) <= set("|-: "), f"no head above: {rows[0]}"
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
        assert [row for row, count in zip(rows, cells, strict=True) if count != cells[0]] == []


def test_the_settings_say_what_every_connection_is_for() -> None:
    """Each connection in `.env.example` has its row in the table of endpoints of docs/settings.md."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    connections = [name.lower() for name in re.findall(r"^AIRFLOW_CONN_([A-Z_]+)=", text, re.MULTILINE)]
    assert connections
    settings = SETTINGS.read_text(encoding="utf-8")
    assert [name for name in connections if f"connection `{name}`" not in settings] == []


def test_the_settings_name_every_section_of_the_release_file() -> None:
    """Whatever a release file may say at its top level has its row in docs/settings.md."""
    table = SETTINGS.read_text(encoding="utf-8").partition("\n## The release file\n")[2].partition("\n## ")[0]
    keys = ReleaseSpec.model_fields.keys() - {"files"}  # filled in by who reads the file
    assert sorted(name for name in keys if f"`{name}`" not in table) == []


def test_every_workflow_is_named_where_one_looks_for_it() -> None:
    """docs/architecture.md lists every DAG of the project, and docs/settings.md says which Params each has."""
    workflows = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
    listed = (
        ARCHITECTURE.read_text(encoding="utf-8")
        .partition("```text\ndags/")[2]
        .partition("plugins/slipway/")[0]
    )
    asked = (
        SETTINGS.read_text(encoding="utf-8").partition("\n## Params of the DAGs\n")[2].partition("\n## ")[0]
    )
    assert [name for name in workflows if name not in listed] == []
    assert [name for name in workflows if f"`{name}`" not in asked] == []


def test_the_settings_name_every_variable_of_the_sandbox() -> None:
    """Each port and folder of the sandbox that can be chosen has its variable in docs/settings.md."""
    settings = SETTINGS.read_text(encoding="utf-8")
    variables = [*PORT_VARIABLES.values(), ROOT_VARIABLE, IMAGES_VARIABLE]
    assert [name for name in variables if f"`{name}`" not in settings] == []


def test_the_page_of_figures_names_every_figure() -> None:
    """Whatever `make bench` measures is in docs/figures.md; `N` stands there for a percentage."""
    page = (DOCS / "figures.md").read_text(encoding="utf-8")
    names = {re.sub(r"_at_\d+_", "_at_N_", name) for name in FIGURES}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_the_release_file_in_the_readme_is_valid() -> None:
    """The README's worked example of a release file is accepted as it stands."""
    spec = parse_release_spec(example(README, "yaml", "model:"), "the README's example")
    assert spec.model == "churn"


WORKED = [
    body
    for page in (BRING, DOCS / "conversion.md")
    for name, body in FENCE.findall(page.read_text(encoding="utf-8"))
    if name == "yaml"
]


@pytest.mark.parametrize("text", WORKED, ids=lambda text: text.split()[1])
def test_each_worked_release_file_is_valid(text: str) -> None:
    """Every release file of "Bring your model" and "Conversion" is read, and so is each of its variants."""
    spec = parse_release_spec(text, "a worked release file")
    assert all(with_variant(spec, name).conversion.program for name in variant_names(spec))


def test_there_is_a_worked_release_file_for_each_target() -> None:
    """No target that a release file may ask for lacks an example."""
    shown = {parse_release_spec(text, "a worked release file").conversion.target for text in WORKED}
    schema = ReleaseSpec.model_json_schema()
    kinds = {name for name in schema["$defs"] if name.endswith("Conversion")}
    assert shown == {schema["$defs"][name]["properties"]["target"]["const"] for name in kinds}


@pytest.mark.parametrize("document", [README, BRING], ids=["readme", "bring-your-model"])
def test_the_ready_file_is_valid(document: Path) -> None:
    """The `ready.json` that a page shows is accepted as it stands."""
    text = example(document, "json", "{")
    described = json.loads(text)
    ready = parse_ready(text.encode(), IncomingVersion(described["model"], described["version"]))
    assert ready.start == "automatic"


def test_decisions_are_numbered_without_gaps() -> None:
    """Each record in docs/adr/ has the next number, in its name and in its title."""
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    for number, record in enumerate(records, start=1):
        assert record.name.startswith(f"{number:04d}-")
        assert record.read_text(encoding="utf-8").startswith(f"# {number:04d}: ")


def test_a_missing_path_is_found_out() -> None:
    """The check of paths can fail: a name that is not there is not taken for a placeholder."""
    assert not exists("include/slipway_core/no_such_file.py")
    assert not exists("include/no_such_folder/MODEL.yaml")
    assert exists("include/releases/MODEL.yaml")


@documents
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    """A claim that is proved by a test names one that is there."""
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text(encoding="utf-8"))
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"def {name}\(", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert missing == []


TEST = re.compile(r"`(tests/[\w./-]+\.py)?::(\w+)`")


def test_the_threats_name_tests_that_exist() -> None:
    """docs/security.md names for each threat the test that holds it; `::name` alone is in the file named before."""
    found, path = 0, ""
    for match in TEST.finditer((ROOT / "docs" / "security.md").read_text(encoding="utf-8")):
        path = match[1] or path
        assert re.search(rf"def {match[2]}\(", (ROOT / path).read_text(encoding="utf-8")), match[0]
        found += 1
    assert found > 40
