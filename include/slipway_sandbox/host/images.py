"""The sandbox's stand-in for container images: a virtual environment for each folder of `include/images/`.

A pod's image reference names the folder (`slipway/onnx:0.1.0` → `onnx`), and the environment holds what the
folder's `requirements.txt` pins, the same file its Dockerfile installs. An environment lies in a folder named
by the hash of everything that went into it, and `NAME` is a link to it that is moved in one step: whoever
looks sees the old one or the new one, never half of one.

    python -m slipway_sandbox.host.images onnx perf-analyzer triton
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[3]
IMAGE_SOURCES = PROJECT_ROOT / "include" / "images"
POD_SCRIPTS = PROJECT_ROOT / "include" / "pod_scripts"
IMAGES_VARIABLE = "SLIPWAY_IMAGES_DIR"
# What the Dockerfiles set for every program of an image: a virtual environment cannot.
IMAGE_VARIABLES = {"ORT_DISABLE_TELEMETRY": "1"}


def images_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the environments of images lie: `SLIPWAY_IMAGES_DIR`, or `.sandbox/images` in the project."""
    return Path(environment.get(IMAGES_VARIABLE) or PROJECT_ROOT / ".sandbox" / "images").resolve()


DEFAULT_ROOT = images_dir()
# Changes when the way an environment is built changes, so that older ones are built again.
RECIPE = 4
STAMP = "slipway-image.json"
INSTALL_TIMEOUT_S = 1800.0
# What the programs that pods start import, and PyTorch's exporter to ONNX when it is called.
_IMPORTED_LATER = ("genai_perf.main", "torch.onnx._internal.exporter._core")
# Packages that import many of their modules only when these are needed: all of their files are compiled.
_COMPILED_WHOLE = ("boto3", "onnxscript", "torch.onnx")
_COMPILE = """
import compileall, importlib, sys
whole = sys.argv[1].split(",")
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except Exception:
        continue
for name in whole:
    module = sys.modules.get(name)
    for folder in getattr(module, "__path__", ()):
        compileall.compile_dir(folder, quiet=2)
"""

Report = Callable[[str], None]


class ImageError(Exception):
    """An image that does not exist or could not be built; the message says which, why, and what to do."""


@dataclass(frozen=True)
class ImageSource:
    """What an image is built from: `include/images/NAME/`, and programs that finish the installation."""

    name: str
    folder: Path
    finishers: tuple[Path, ...] = ()

    @property
    def requirements(self) -> Path:
        """The file that pins what is installed."""
        return self.folder / "requirements.txt"


def known_images(sources: Path = IMAGE_SOURCES) -> list[str]:
    """Return the names of all folders that an image can be built from, sorted."""
    return sorted(path.parent.name for path in sources.glob("*/requirements.txt"))


def image_name(reference: str) -> str:
    """Return the image's name in a reference: `registry:5000/slipway/onnx:0.1.0@sha256:…` → `onnx`.

    :raises ImageError: the reference holds no valid name.
    """
    name = reference.split("@", 1)[0].rsplit("/", 1)[-1].split(":", 1)[0]
    if not re.fullmatch(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", name):
        raise ImageError(
            f"{reference!r} is not an image reference. Expected something like 'slipway/onnx:0.1.0'; "
            f"found no name in it. Correct `image` in the release file."
        )
    return name


def image_source(name: str, sources: Path = IMAGE_SOURCES) -> ImageSource:
    """Return the folder of an image.

    :raises ImageError: there is none; the message lists the known ones.
    """
    known = known_images(sources)
    if name not in known:
        raise ImageError(
            f"The image {name!r} does not exist. Expected one of {', '.join(known) or '(none)'}; found no "
            f"requirements.txt under {sources / name}. Correct the name, or add the folder."
        )
    finisher = sources / "perf-analyzer" / "place_perf_analyzer.py"
    needs_load_generator = name in ("perf-analyzer", "genai-perf")
    return ImageSource(name, sources / name, (finisher,) if needs_load_generator else ())


def image_home(name: str, root: Path = DEFAULT_ROOT) -> Path:
    """Return where the environment of an image lies (whether it is built or not)."""
    return root / name


def image_python(name: str, root: Path = DEFAULT_ROOT) -> Path:
    """Return the Python of an image's environment (whether it is built or not)."""
    return image_home(name, root) / "bin" / "python"


def is_built(
    name: str, root: Path = DEFAULT_ROOT, *, python: str | None = None, sources: Path = IMAGE_SOURCES
) -> bool:
    """Return whether the environment exists and was made from the requirements as they are now."""
    digest = image_digest(image_source(name, sources), python or _chosen_interpreter(image_home(name, root)))
    return _stamped_digest(image_home(name, root)) == digest


def image_digest(source: ImageSource, python: str) -> str:
    """Return a hash of all that decides what is in it: pins, finishing programs, interpreter, recipe."""
    digest = hashlib.sha256(f"{RECIPE}\n{_interpreter_id(python)}\n".encode())
    for path in (source.requirements, *source.finishers):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_image(
    name: str,
    root: Path = DEFAULT_ROOT,
    *,
    python: str | None = None,
    sources: Path = IMAGE_SOURCES,
    report: Report = print,
) -> Path:
    """Build the environment of an image unless it is up to date; return its folder.

    `root` is the folder that holds the environments, `python` the interpreter to build upon (this one by
    default). Two builders of one image take turns. Raises ImageError, and leaves the former environment as it
    was.
    """
    source = image_source(name, sources)
    interpreter = python or _chosen_interpreter(image_home(name, root))
    digest = image_digest(source, interpreter)
    home = image_home(name, root)
    root.mkdir(parents=True, exist_ok=True)
    with _exclusive(
        root / f".{name}.lock", lambda: report(f"{name}: another build is at work, waiting for it")
    ):
        if _stamped_digest(home) == digest:
            report(f"{name}: up to date")
            return home
        started = time.monotonic()
        report(f"{name}: installing {_count_pins(source.requirements)} packages")
        built = root / f"{name}-{digest[:16]}"
        shutil.rmtree(built, ignore_errors=True)
        _install(source, built, interpreter)
        _stamp(built, name, digest, interpreter)
        _point(home, built)
        _sweep(name, root, keep=built)
        report(f"{name}: built in {time.monotonic() - started:.1f} s")
    return home


def _install(source: ImageSource, target: Path, interpreter: str) -> None:
    uv = find_uv()
    python = str(target / "bin" / "python")
    _run(source.name, [uv, "venv", "--quiet", "--no-project", "--python", interpreter, str(target)])
    requirements = str(source.requirements)
    _run(
        source.name,
        [uv, "pip", "install", "--quiet", "--require-hashes", "--python", python, "-r", requirements],
    )
    for finisher in source.finishers:
        _run(source.name, [python, str(finisher)])
    # Where an image is built, pip compiles what it installs; uv does not. A pod may not write, and would compile what
    # it imports at each start, for seconds. All packages would take a minute or two, what pods import some seconds.
    if _count_pins(source.requirements):
        whole, names = ",".join(_COMPILED_WHOLE), [*imported_by_pods(), *_IMPORTED_LATER]
        _run(source.name, [python, "-W", "ignore", "-c", _COMPILE, whole, *names])


def imported_by_pods(scripts: Path = POD_SCRIPTS) -> list[str]:
    """Return the modules of other projects that the pods' programs import, sorted."""
    found: set[str] = set()
    for path in scripts.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                found |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    own = {path.stem for path in scripts.iterdir()}
    return sorted(name for name in found if name.partition(".")[0] not in sys.stdlib_module_names | own)


def find_uv() -> str:
    """Return the uv beside this Python, else the one on PATH.

    :raises ImageError: there is none.
    """
    next_to_python = Path(sysconfig.get_path("scripts")) / "uv"
    found = str(next_to_python) if next_to_python.exists() else shutil.which("uv")
    if found is None:
        raise ImageError(
            "Images are built with uv. Expected it in Python's folder or on PATH; found neither. Run `make setup`."
        )
    return found


def _run(name: str, command: list[str]) -> None:
    # A virtual environment that happens to be active must not become the target.
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    } | IMAGE_VARIABLES
    try:
        subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        output = "\n".join((error.stdout or "").strip().splitlines()[-20:])
        raise ImageError(
            f"The image {name!r} could not be built: {Path(command[0]).name} {command[1]} ended with exit "
            f"code {error.returncode}. Check the network and the free disk space, then try again.\n"
            f"{output}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ImageError(
            f"The image {name!r} could not be built within {INSTALL_TIMEOUT_S:.0f} s. "
            "Check the network, then run the setup again: downloads are kept."
        ) from error


def _interpreter_id(python: str) -> str:
    """Return version and place of an interpreter: an environment works only with the one it was built upon."""
    if python == sys.executable:
        return f"{sys.version_info[:3]} {sys.base_prefix}"
    program = "import sys; print(sys.version_info[:3], sys.base_prefix)"
    answer = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return answer.stdout.strip()


def _stamp(built: Path, name: str, digest: str, interpreter: str) -> None:
    content = {"image": name, "digest": digest, "interpreter": interpreter}
    (built / STAMP).write_text(json.dumps(content, indent=2) + "\n")


def _stamped_digest(home: Path) -> str | None:
    usable = (home / "bin" / "python").exists()
    return _read_stamp(home).get("digest") if usable else None


def _chosen_interpreter(home: Path) -> str:
    """Return the interpreter that the environment was built upon, as long as it is there: set-up may have chosen it."""
    stamped = _read_stamp(home).get("interpreter")
    return stamped if stamped and os.access(stamped, os.X_OK) else sys.executable


def _read_stamp(home: Path) -> dict[str, str]:
    """Return what an earlier build wrote down; empty when there is nothing that can be read."""
    try:
        stamp = json.loads((home / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in stamp.items()} if isinstance(stamp, dict) else {}


def _point(home: Path, built: Path) -> None:
    """Make `home` a link to `built`, in one step; a plain folder in its place is set aside for the sweep."""
    if home.is_dir() and not home.is_symlink():
        home.rename(built.with_name(f"{home.name}-replaced-{os.getpid()}"))
    link = built.with_name(f".{home.name}.link")
    link.unlink(missing_ok=True)
    link.symlink_to(built.name)
    link.replace(home)


def _sweep(name: str, root: Path, *, keep: Path) -> None:
    """Remove former environments of this image; only folders that carry such a name are touched."""
    former = re.compile(re.escape(name) + r"-(?:[0-9a-f]{16}|replaced-\d+)")
    for path in root.iterdir():
        if former.fullmatch(path.name) and path != keep:
            shutil.rmtree(path, ignore_errors=True)


def _count_pins(requirements: Path) -> int:
    return sum(
        "==" in line and not line.startswith((" ", "#")) for line in requirements.read_text().splitlines()
    )


@contextmanager
def _exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m slipway_sandbox.host.images", description="Builds the sandbox's images."
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"one or more of: {', '.join(known_images())}"
    )
    parser.add_argument(
        "--root", type=Path, default=DEFAULT_ROOT, help="the folder that holds the environments"
    )
    parser.add_argument(
        "--sources", type=Path, default=IMAGE_SOURCES, help="the folder that holds what they are built from"
    )
    parser.add_argument("--python", help="the interpreter to build upon (default: as before, or this one)")
    options = parser.parse_args(arguments)
    try:
        for name in options.names:
            build_image(
                name,
                options.root,
                python=options.python,
                sources=options.sources,
                report=lambda line: print(line, flush=True),
            )
    except ImageError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
