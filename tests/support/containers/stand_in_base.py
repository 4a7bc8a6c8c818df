"""A stand-in for the base image `python:3.11-slim-bookworm`, for machines that reach no registry.

Debian 12 by mmdebstrap, and this machine's own CPython 3.11 below /usr/local, laid out as in the official image: the
library shared, no bytecode of the standard library, pip from ensurepip. It differs in the patch release and in what
the official image does to apt.

    python -m tests.support.containers.stand_in_base
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.containers.engine import Engine, NoEngineError, containers_dir, find_engine

DEBIAN_IMAGE = "localhost/slipway-stand-in/bookworm:base"
PYTHON_IMAGE = "localhost/slipway-stand-in/python:3.11-slim-bookworm"
SUITE = "bookworm"
# What the official image of Python installs to run: libraries that CPython's modules are linked to.
DEBIAN_PACKAGES = (
    "ca-certificates,netbase,tzdata,libssl3,libffi8,libsqlite3-0,zlib1g,libbz2-1.0,liblzma5,libreadline8,"
    "libncursesw6,libgdbm6,libgdbm-compat4,libuuid1,libnsl2,libtirpc3,libexpat1"
)
LEFT_OUT = {"__pycache__", "site-packages", "test", "tests", "idle_test"}
CONTAINERFILE = f"""\
FROM {DEBIAN_IMAGE}
ADD python.tar /usr/local/
RUN ldconfig && python3 -m ensurepip && ln -s pip3 /usr/local/bin/pip && pip install --no-cache-dir wheel \\
    && find /usr/local -depth -name __pycache__ -exec rm -r {{}} +
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
"""
MINIMUM, LIMIT_S = (3, 11), 900

Report = Callable[[str], None]


def provide_python_base(engine: Engine, folder: Path, report: Report = print) -> str:
    """Return the name of the stand-in, which is built once.

    :raises NoEngineError: what it is built with is not there.
    """
    if not engine.has(PYTHON_IMAGE):
        provide_debian_base(engine, folder, report)
        report(f"building {PYTHON_IMAGE} from {sys.base_prefix}")
        with tempfile.TemporaryDirectory() as text:
            context = Path(text)
            pack_python(Path(sys.base_prefix), context / "python.tar")
            (context / "Containerfile").write_text(CONTAINERFILE)
            engine.build(context / "Containerfile", context, PYTHON_IMAGE)
    return PYTHON_IMAGE


def provide_debian_base(engine: Engine, folder: Path, report: Report = print) -> str:
    """Return the name of a small Debian 12, which is made once."""
    if not engine.has(DEBIAN_IMAGE):
        if shutil.which("mmdebstrap") is None:
            raise NoEngineError(
                "Neither a base image was named nor can a stand-in be made. Expected mmdebstrap on PATH, or "
                "BASE=NAME, an image that this machine can pull."
            )
        report(f"building {DEBIAN_IMAGE} with mmdebstrap")
        archive = folder / f"{SUITE}.tar"
        command = [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={DEBIAN_PACKAGES}",
            SUITE,
            str(archive),
        ]
        subprocess.run(["nice", "-n", "10", *command], check=True, timeout=LIMIT_S)
        engine.call("import", str(archive), DEBIAN_IMAGE, limit_s=LIMIT_S)
        archive.unlink()
    return DEBIAN_IMAGE


def pack_python(prefix: Path, archive: Path) -> None:
    """Write the CPython below `prefix` as it will lie below /usr/local.

    :raises NoEngineError: it is another version, or has no shared library.
    """
    name = "python3.11"
    library = prefix / "lib" / f"lib{name}.so.1.0"
    if sys.version_info[:2] != MINIMUM or not library.is_file():
        raise NoEngineError(
            f"No stand-in for python:3.11 can be made from {prefix}. Expected CPython 3.11 with {library.name}; "
            "name a base image instead: BASE=NAME."
        )
    with tarfile.open(archive, "w") as tar:
        tar.add(prefix / "bin" / name, f"bin/{name}")
        for link in ("python3", "python"):
            tar.addfile(_link(f"bin/{link}", name))
        tar.add(library, f"lib/{library.name}")
        tar.add(prefix / "lib" / name, f"lib/{name}", filter=_kept)


def _link(place: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(place)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def _kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(info.name).parts
    if LEFT_OUT & set(parts) or any(part.startswith("config-3.11") for part in parts):
        return None
    info.uid = info.gid = 0
    return info


def main() -> int:
    """Build the stand-in unless it is there; print its name."""
    try:
        print(provide_python_base(find_engine(), containers_dir(), lambda text: print(text, file=sys.stderr)))
    except NoEngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
