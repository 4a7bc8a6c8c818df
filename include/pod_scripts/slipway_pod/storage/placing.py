"""A folder that is filled at once: incomplete content lies where no inference server looks, and is removed on failure.

The folder may be a mount, which cannot be replaced as a whole. So its content is made in a hidden folder inside it,
from which Triton loads nothing, and is moved up when all of it is there. The hidden folder, or a hidden file that is
written last, tells that what lies there is this program's own: the next run may remove it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slipway_pod.errors import PodError

STAGED = ".slipway-staged"
DONE = ".slipway-verified.json"
IGNORED = frozenset({"lost+found"})


@contextmanager
def filled(folder: Path, about: Mapping[str, object]) -> Iterator[Path]:
    """Yield a folder to write to; at the end of the block its content becomes that of `folder`.

    Nothing of it is left when the block fails. `about` is written beside the content. Raises PodError, and touches
    nothing, where something lies in `folder` that this function did not put there.
    """
    with writing_errors(folder):
        _prepare(folder)
    try:
        yield folder / STAGED
        with writing_errors(folder):
            for path in sorted((folder / STAGED).iterdir()):
                path.rename(folder / path.name)
            (folder / DONE).write_text(json.dumps(about, indent=2) + "\n")
            (folder / STAGED).rmdir()
    except BaseException:
        _clear(folder, but=frozenset())
        raise


@contextmanager
def writing_errors(folder: Path) -> Iterator[None]:
    """Raise a PodError in place of the file system's errors."""
    try:
        yield
    except OSError as error:
        remedy = "give the pod room for the model, and this user the right to write there"
        found = error.strerror or type(error).__name__
        raise PodError("UserError", f"{folder} cannot be written", found=found, remedy=remedy) from error


def names_in(folder: Path) -> set[str]:
    """Return what lies in a folder, but for what the file system itself puts there."""
    return {path.name for path in folder.iterdir()} - IGNORED


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = names_in(folder)
    if names and not names & {STAGED, DONE}:
        what = f"{folder} holds something already"
        found = ", ".join(sorted(names)[:3])[:200]
        remedy = "give the pod an empty volume there"
        raise PodError("UserError", what, expected="an empty folder", found=found, remedy=remedy)
    # It is made before anything is removed: if this program is killed meanwhile, the next one knows the folder as ours.
    (folder / STAGED).mkdir(exist_ok=True)
    _clear(folder, but=frozenset({STAGED}))
    _clear(folder / STAGED, but=frozenset())


def _clear(folder: Path, but: frozenset[str]) -> None:
    """Remove what lies in a folder; the hidden folder last."""
    if not folder.is_dir():
        return
    for name in sorted(names_in(folder) - but, key=lambda name: (name == STAGED, name)):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
