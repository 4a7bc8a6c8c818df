"""The folder from which the wheel nvidia-pytriton's `tritonserver` runs.

The wheel's server does not run from where it is installed: it wants a backend folder of its own, the Python stub of
the right minor version, and libpython on the loader's path. `TritonInstall.prepare` builds such a folder once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway_core.errors import SlipwayError
from slipway_sandbox.host.images import IMAGE_VARIABLES, image_home
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.shell_names import shell_names

BACKENDS = Path(__file__).resolve().parent / "backends"
# Of the caller's environment these would reach into Triton's own interpreter or loader.
FOREIGN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class TritonInstall:
    """A private server folder: `directory` holds bin/, backends/, caches/; `venv` is the stub's Python."""

    directory: Path
    venv: Path
    library_path: str
    version: str

    @classmethod
    def prepare(cls, root: Path | None = None, venv: Path | None = None) -> TritonInstall:
        """Build the folder under `root` unless it is there, check that it can start, and return it.

        `root` defaults to `.sandbox/triton`, `venv` to the environment of the image `triton`. The folder is named by
        what went into it, so a change of the wheel or of a backend never touches the files of a running server.

        :raises SlipwayError: the environment, its libpython or a library is missing.
        """
        root = root or PROJECT_ROOT / ".sandbox" / "triton"
        install, source, stub = cls._planned(root, venv or image_home("triton"))
        with _locked(root / "lock"):
            if not install.directory.is_dir():
                _build(install.directory, source, stub)
        install.check()
        return install

    @classmethod
    def found(cls, venv: Path) -> TritonInstall:
        """Return the folder that set-up has built; for a process that may write nowhere.

        :raises SlipwayError: it is not there.
        """
        install, _, _ = cls._planned(PROJECT_ROOT / ".sandbox" / "triton", venv)
        if not install.directory.is_dir():
            raise SlipwayError(
                "Triton's server folder is not built",
                expected=f"the folder {install.directory}",
                remedy="Build it: python -m slipway_sandbox.services.triton --check",
            )
        return install

    @classmethod
    def _planned(cls, root: Path, venv: Path) -> tuple[TritonInstall, Path, Path]:
        """Return the folder as it is or will be, and from where the server and its Python stub come."""
        interpreter = _interpreter(venv)
        site = Path(interpreter["site"])
        source = site / "pytriton" / "tritonserver"
        stub = source / "python_backend_stubs" / interpreter["version"] / "triton_python_backend_stub"
        if not stub.is_file():
            raise SlipwayError(
                f"The Triton environment {venv} has no stub for Python {interpreter['version']}",
                expected=f"the file {stub}",
                remedy="Build the image again: python -m slipway_sandbox.host.images triton",
            )
        library_path = os.pathsep.join(
            [str(site / "nvidia_pytriton.libs"), _libpython_directory(interpreter)]
        )
        directory = root / _digest(site, interpreter["version"])
        return cls(directory, venv, library_path, _wheel_version(site)), source, stub

    def environment(
        self, given: Mapping[str, str], name: Callable[[str | Path], str] = str
    ) -> dict[str, str]:
        """Return a server's environment: what is given, less what would disturb Triton's interpreter.

        :param name: what a folder of libraries is called there: the loader knows no quotes either.
        """
        inherited = {name: value for name, value in given.items() if name not in FOREIGN_VARIABLES}
        return {
            **inherited,
            **IMAGE_VARIABLES,
            "PATH": os.pathsep.join([str(self.venv / "bin"), inherited.get("PATH", os.defpath)]),
            "LD_LIBRARY_PATH": self._libraries(name),
            "PYTHONDONTWRITEBYTECODE": "1",  # no __pycache__ in a model's folder
            "OMP_NUM_THREADS": "1",
        }

    def _libraries(self, name: Callable[[str | Path], str]) -> str:
        return os.pathsep.join(map(name, self.library_path.split(os.pathsep)))

    @property
    def stub(self) -> Path:
        """The program that runs a Python model."""
        return self.directory / "backends" / "python" / "triton_python_backend_stub"

    def check(self) -> None:
        """Ask the loader whether server and stub find every library; raises `SlipwayError` that names the
        missing.

        A stub without libpython hangs every load for a minute and makes the server deaf to SIGTERM.
        """
        for program in (self.directory / "bin" / "tritonserver", self.stub):
            with shell_names() as names:
                result = subprocess.run(
                    ["ldd", str(program)],
                    env={"LD_LIBRARY_PATH": self._libraries(names.name), "PATH": os.defpath},
                    pass_fds=names.descriptors,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            missing = [line.split()[0] for line in result.stdout.splitlines() if "not found" in line]
            if missing or result.returncode != 0:
                raise SlipwayError(
                    f"{program.name} cannot start here",
                    expected="every shared library found",
                    found=", ".join(missing) or result.stderr.strip(),
                    remedy="Use glibc 2.35 or later and an interpreter that brings its shared library "
                    "(uv python install 3.11), then: python -m slipway_sandbox.host.images triton",
                )


def _interpreter(venv: Path) -> dict[str, str]:
    """Ask the environment's own Python about itself."""
    python = venv / "bin" / "python"
    program = (
        "import json, sys, sysconfig as s; v = s.get_config_var; "
        "print(json.dumps({'version': '%d.%d' % sys.version_info[:2], 'site': s.get_path('purelib'), "
        "'directory': v('LIBDIR') or '', 'multiarch': v('MULTIARCH') or '', 'prefix': sys.base_prefix}))"
    )
    if not python.exists():
        raise SlipwayError(
            "The environment of the Triton image is not built",
            expected=f"the interpreter {python}",
            remedy="Build it: python -m slipway_sandbox.host.images triton",
        )
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    answer = subprocess.run(
        [str(python), "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    facts: dict[str, str] = json.loads(answer.stdout)
    return facts


def _libpython_directory(interpreter: Mapping[str, str]) -> str:
    library = f"libpython{interpreter['version']}.so.1.0"
    directory = Path(interpreter["directory"])
    candidates = [directory, directory / interpreter["multiarch"], Path(interpreter["prefix"]) / "lib"]
    for candidate in candidates:
        if (candidate / library).is_file():
            return str(candidate)
    raise SlipwayError(
        f"Python {interpreter['version']} comes without its shared library",
        expected=f"{library} in {' or '.join(map(str, dict.fromkeys(candidates)))}",
        remedy="Use an interpreter that has it, for example uv's own (uv python install "
        f"{interpreter['version']}), or install the package libpython{interpreter['version']}.",
    )


def _wheel_version(site: Path) -> str:
    names = sorted(path.name for path in site.glob("nvidia_pytriton-*.dist-info"))
    return names[0].removeprefix("nvidia_pytriton-").removesuffix(".dist-info") if names else "unknown"


def _digest(site: Path, python_version: str) -> str:
    content = hashlib.sha256(f"{_wheel_version(site)} {python_version}".encode())
    for path in sorted(BACKENDS.rglob("*.py")):
        content.update(str(path.relative_to(BACKENDS)).encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:12]


def _build(directory: Path, source: Path, stub: Path) -> None:
    """Lay the folder out beside its place and move it there whole."""
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name in ("bin", "backends", "caches"):
        shutil.copytree(source / name, partial / name)
    shutil.copy2(stub, partial / "backends" / "python" / stub.name)
    ignored = shutil.ignore_patterns("__pycache__")
    for backend in sorted(path for path in BACKENDS.iterdir() if (path / "model.py").is_file()):
        shutil.copytree(backend, partial / "backends" / backend.name, ignore=ignored)
    for program in (partial / "bin" / "tritonserver", partial / "backends" / "python" / stub.name):
        program.chmod(0o755)
    partial.rename(directory)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
