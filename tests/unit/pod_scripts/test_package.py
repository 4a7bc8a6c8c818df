"""The programs and their packages: what is shared is written once, and nothing else is needed to start one."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS_DIR = Path(__file__).resolve().parents[3] / "include" / "pod_scripts"
IMAGES_DIR = PROGRAMS_DIR.parent / "images"
PROGRAMS = sorted(path for path in PROGRAMS_DIR.glob("*.py") if path.name != "__init__.py")
RULES_DIR = PROGRAMS_DIR.parent / "slipway_rules"
PACKAGES = ("slipway_pod", "slipway_rules")
MODULES = sorted(path for name in PACKAGES for path in (PROGRAMS_DIR / name).resolve().rglob("*.py"))
# What every program defines for itself.
OWN = {"PACKAGES", "arguments", "check", "check_arguments", "convert", "main", "measure", "work"}

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)


def definitions(path: Path) -> set[str]:
    """The functions, classes and constants that a file defines."""
    body = ast.parse(path.read_text()).body
    named = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return named | {
        target.id
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def imported(path: Path) -> set[str]:
    """The top names of the modules that a file imports when it is imported itself."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).split(".")[0])
    return found


@programs
def test_what_the_package_has_no_program_defines(program: Path) -> None:
    """A program takes what is shared from the packages, and defines none of it again."""
    shared = set[str]().union(*map(definitions, MODULES))
    assert definitions(program) & shared <= OWN


def test_nothing_is_written_twice() -> None:
    """What two programs do word for word belongs into a package, by whatever name."""
    seen: dict[str, str] = {}
    for path in (*PROGRAMS, *MODULES):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and len(node.body) > 2:
                body = "\n".join(map(ast.unparse, node.body[1:]))
                assert body not in seen, f"{node.name} of {path.stem} stands in {seen[body]} too"
                seen[body] = path.stem


@pytest.mark.parametrize("path", [*PROGRAMS, *MODULES], ids=lambda path: path.stem)
def test_libraries_are_imported_where_they_are_used(path: Path) -> None:
    """A file needs Python and the packages to be imported: `--help` answers at once, and the limits come first."""
    assert imported(path) <= {*sys.stdlib_module_names, *PACKAGES}


@programs
def test_a_program_starts_from_any_folder(program: Path, tmp_path: Path) -> None:
    """Run by its path, without any library, a program finds its packages and tells its arguments."""
    command = [sys.executable, "-S", "-B", str(program), "--help"]
    done = subprocess.run(
        command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"--destination |\bSOURCE DESTINATION\b", done.stdout)
    assert "Exit codes: 0 done" in " ".join(done.stdout.split())


@programs
def test_an_image_has_the_program_and_the_packages(program: Path) -> None:
    """Each program is in one image, with both packages beside it."""
    texts = [path.read_text() for path in IMAGES_DIR.glob("*/Dockerfile")]
    (dockerfile,) = (text for text in texts if f"pod_scripts/{program.name} /opt/slipway/bin/" in text)
    assert "COPY pod_scripts/slipway_pod /opt/slipway/bin/slipway_pod\n" in dockerfile
    assert "COPY slipway_rules /opt/slipway/bin/slipway_rules\n" in dockerfile


def test_the_rules_lie_beside_the_programs() -> None:
    """In a checkout, as in an image, a program that is run by its path finds the rules in its own folder."""
    link = PROGRAMS_DIR / RULES_DIR.name
    assert link.is_symlink()
    assert link.readlink() == Path("..", RULES_DIR.name)
    assert link.resolve() == RULES_DIR


@pytest.mark.parametrize("path", sorted(RULES_DIR.rglob("*.py")), ids=lambda path: path.stem)
def test_the_rules_need_python_and_numpy_alone(path: Path) -> None:
    """Wherever in a file, nothing else is imported: every image has these two."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {
        alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    found |= {str(node.module).split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert found <= {*sys.stdlib_module_names, "numpy", RULES_DIR.name}
