"""The images of the demo's node, made here: there is no registry that it could pull from.

Knative's and Kourier's programs are static, and whole in their images. The project's and Triton's are thin:
they have the pods' programs, user, entrypoint and variables; Python with its packages is this machine's own, and every
container sees it, read-only (`machine_folders`). `make images-test` builds them whole, from their Dockerfiles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipway_sandbox.cluster.node.container_process import BASE_IMAGE
from slipway_sandbox.host.images import IMAGE_VARIABLES, POD_SCRIPTS, image_home, image_python, images_dir
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.router import envoy_program
from tests.support.cluster_demo.image_archive import Image, Layer, write_archive
from tests.support.containers.node.worker import PAUSE_IMAGE, Worker

# By which Knative's and KServe's own manifests and ConfigMaps name them here.
KNATIVE_IMAGE = "localhost/slipway/{name}:demo"
ENVOY_IMAGE = "docker.io/envoyproxy/envoy:v1.36-latest"
TRITON_IMAGE = "nvcr.io/nvidia/tritonserver:none"
# The program of each of the project's images; "" where it has one that is a package.
POD_PROGRAMS = {
    "onnx": "convert_onnx.py",
    "smoke-test": "smoke_test.py",
    "perf-analyzer": "benchmark_perf_analyzer.py",
    "score": "score_answers.py",
    "verify": "verify_repository.py",
    "guard": "",
}
_VERSION = "0.1.0"
_BIN, _HOME = "/opt/slipway/bin", "/home/slipway"
_POD_USER, _KO_USER = "10001:10001", "65532:65532"
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_PACKAGES_IN_PODS = ("slipway_pod", "slipway_rules")
_PACKAGES_OF_THE_GUARD = ("slipway_guard", "slipway_kubernetes", "slipway_core")
_ROOT = Layer(
    files={
        "/etc/passwd": b"root:x:0:0::/root:/bin/sh\nslipway:x:10001:10001::/home/slipway:/bin/sh\n",
        "/etc/group": b"root:x:0:\nslipway:x:10001:\n",
    },
    folders={"/tmp": 0o1777, _HOME: 0o755, "/etc": 0o755},
    # As in Debian: what lies there is this machine's.
    links={name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")},
)


def machine_folders() -> tuple[Path, ...]:
    """Return the folders of this machine that take the place of a base image, of Python and of its packages."""
    system = [Path(f"/usr/{name}") for name in ("bin", "lib", "lib64", "sbin", "share")]
    python = Path(sys.base_prefix)
    own = [images_dir(), PROJECT_ROOT / "include", PROJECT_ROOT / ".sandbox" / "triton"]
    wanted = [*system, *(() if python == Path("/usr") else (python,)), *own]
    return tuple(path for path in wanted if path.is_dir())


def give_images(worker: Worker, static: Mapping[str, Path], first: tuple[str, ...]) -> None:
    """Make all of them, and give them to a node.

    :param static: programs without a library, by name.
    :param first: the command that holds a pod's namespaces.
    """
    images = [_pause(first), *(_static(name, path) for name, path in static.items()), *_thin()]
    path = worker.folder / "images.tar"
    with path.open("wb") as archive:
        write_archive(images, archive)
    with path.open("rb") as archive:
        worker.import_images(archive, "the images of the demo")
    path.unlink()


def _pause(first: tuple[str, ...]) -> Image:
    program, *words = first
    return Image(PAUSE_IMAGE, (Layer(programs={"/pause": Path(program)}),), entrypoint=("/pause", *words))


def _static(name: str, program: Path) -> Image:
    path = f"/ko-app/{name}"
    return Image(
        KNATIVE_IMAGE.format(name=name), (Layer(programs={path: program}),), _KO_USER, entrypoint=(path,)
    )


def _thin() -> Iterator[Image]:
    scripts = Layer(
        files=_package_files(_BIN, POD_SCRIPTS, _PACKAGES_IN_PODS),
        programs={f"{_BIN}/{name}": POD_SCRIPTS / name for name in POD_PROGRAMS.values() if name},
    )
    for name, program in POD_PROGRAMS.items():
        path = [_BIN, str(image_python(name).parent)]
        if name == "smoke-test":
            path.append(str(BASE_IMAGE))
        variables = {"PATH": ":".join((*path, _SYSTEM_PATH)), "PYTHONUNBUFFERED": "1", **IMAGE_VARIABLES}
        layers = (_ROOT, scripts)
        entrypoint: tuple[str, ...] = (program,) if name == "verify" else ()
        if name == "guard":
            layers = (
                _ROOT,
                Layer(_package_files("/opt/slipway", PROJECT_ROOT / "include", _PACKAGES_OF_THE_GUARD)),
            )
            variables["PYTHONPATH"] = "/opt/slipway"
            entrypoint = ("python", "-OO", "-m", "slipway_guard")
        reference = f"docker.io/slipway/{name}:{_VERSION}"
        yield Image(reference, layers, _POD_USER, variables, entrypoint, _HOME)
    server_path = (str(BASE_IMAGE), str(image_home("triton") / "bin"), _SYSTEM_PATH)
    yield Image(TRITON_IMAGE, (_ROOT,), environment={"PATH": ":".join(server_path)})
    yield Image(ENVOY_IMAGE, (_ROOT, Layer(programs={"/usr/local/bin/envoy": envoy_program()})))


def _package_files(target: str, source: Path, packages: tuple[str, ...]) -> dict[str, bytes]:
    """Return the content of the modules of packages, by the path in an image."""
    return {
        f"{target}/{package}/{path.relative_to(source / package)}": path.read_bytes()
        for package in packages
        for path in sorted((source / package).rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
