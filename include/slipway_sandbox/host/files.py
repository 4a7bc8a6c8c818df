"""Files that are replaced in one step: whoever reads them sees the old text or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, text: str, *, private: bool = False) -> None:
    """Write `text` to `path` in one step, in UTF-8; its folder is made where it is missing.

    :param private: only the owner can read the file.
    :raises OSError: it cannot be written; what was there before is there still.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A short name of its own: `path` may have the longest name that there can be, and other threads write as well.
    fresh = path.with_name(f".{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
