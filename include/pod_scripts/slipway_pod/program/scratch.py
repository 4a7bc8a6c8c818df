"""Folders for temporary files: a program says which one it cannot write to, and what to mount."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipway_pod.errors import PodError

FOLDER_VARIABLE = "TMPDIR"
DEFAULT_FOLDER = "/tmp"  # noqa: S108 - what tempfile takes where the variable is not set


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Provide an empty folder for temporary files, which is removed at the end of the block.

    :raises PodError: of kind UserError, no folder for temporary files can be written to.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise _not_writable(error) from error
    with folder as path:
        yield Path(path)


def _not_writable(error: OSError) -> PodError:
    place = os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER
    return PodError(
        "UserError",
        f"{place} cannot be written to, and this program needs it for temporary files",
        expected=f"a folder that user {os.getuid()} may write to",
        found=f"{type(error).__name__}: {error}",
        remedy=f"mount a volume at {place} (Kubernetes: an emptyDir; Docker and Podman: --tmpfs {place}), "
        f"or name another folder in {FOLDER_VARIABLE}",
    )
