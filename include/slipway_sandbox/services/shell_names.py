"""Folders under names that a shell takes for one word.

Triton's Python backend starts its stub with `bash -c "exec BACKENDS/python/… REPOSITORY/MODEL/…"` and quotes nothing:
below a folder with a space no model loads, and another character may run a program. So such a folder is handed over
open: the server and all that it starts inherit it, and call it `/proc/self/fd/N`. Nothing is written anywhere, nothing
has to be removed, and the length of the path does not matter either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# One word in any shell, in any locale; the loader and Triton give these characters no meaning either.
_ONE_WORD = re.compile(r"/[A-Za-z0-9/._+@-]*")


class ShellNames:
    """Names of folders for one process that is about to be started; `descriptors` are what it must inherit.

    A folder whose path is one word keeps it. What is no folder keeps its name as well: whoever is given it says so.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the open folders, for `pass_fds`."""
        return tuple(self._open.values())

    def name(self, folder: str | Path) -> str:
        """Return a name that leads to `folder` from the process, and from all that inherits from it."""
        path = str(Path(folder).absolute())
        if _ONE_WORD.fullmatch(path):
            return str(folder)
        if path not in self._open:
            try:
                self._open[path] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                return str(folder)
        return f"/proc/self/fd/{self._open[path]}"

    def inherit(self) -> None:
        """Keep the folders open for the program that replaces this one."""
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, True)

    def close(self) -> None:
        """Close the folders here; a process that was started has its own."""
        while self._open:
            os.close(self._open.popitem()[1])


@contextmanager
def shell_names() -> Iterator[ShellNames]:
    """Give names for a process that is started within the block."""
    names = ShellNames()
    try:
        yield names
    finally:
        names.close()
