"""A source of many files, a folder or an archive in S3: which are wanted, their limits, and their download.

Of an archive only regular files are unpacked: no link, no device, no permission, no path that leads outside.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from slipway_pod.errors import PodError, first_line
from slipway_pod.program.progress import say
from slipway_pod.storage.s3 import Store
from slipway_pod.storage.upload import MEBIBYTE
from slipway_rules.pod_files import is_model_file
from slipway_rules.text_forms import is_plain_path

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
MAX_FILES = 10_000

# Name, size in bytes and reader of a file of an archive.
Entry = tuple[str, int, Callable[[], IO[bytes]]]


def fetch_source(
    store: Store, url: str, folder: Path, *, limit_bytes: int, but: Collection[str] = ()
) -> list[str]:
    """Download a source to `folder`, without the names in `but`; return what was left out."""
    if url.endswith(ARCHIVES):
        archive = folder.with_name(url.rsplit("/", 1)[1])
        store.download(url, archive)
        left_out = _unpack(archive, folder, limit_bytes)
    else:
        objects = {name: size for name, size in store.sizes(url).items() if name not in but}
        wanted = {name: size for name, size in objects.items() if is_model_file(name)}
        left_out = sorted(objects.keys() - wanted.keys())
        require_plain_and_small(wanted, limit_bytes, url)
        for name in wanted:
            store.download(f"{url}/{name}", folder / name)
    say("fetch", f"{url}: {sum(1 for path in folder.rglob('*') if path.is_file())} files")
    return left_out


def require_plain_and_small(sizes: Mapping[str, int], limit_bytes: int, where: str) -> None:
    """Raise PodError unless the names (with sizes in bytes) are plain and all together are within the limit."""
    if not sizes:
        remedy = "upload the model's files, or correct `source` in the release file"
        raise PodError("InputMissingError", f"{where} is empty", remedy=remedy)
    strange = [name for name in sizes if not is_plain_path(name)]
    if strange:
        raise PodError(
            "ModelInvalidError",
            f"{where} has files whose names a model repository cannot have",
            expected="letters, digits and ._@+-, no `..`",
            found=", ".join(map(repr, strange[:5])),
            remedy="rename them",
        )
    if sum(sizes.values()) > limit_bytes or len(sizes) > MAX_FILES:
        raise PodError(
            "ModelInvalidError",
            f"{where} is too large",
            expected=f"at most {limit_bytes / MEBIBYTE:g} MiB in {MAX_FILES} files",
            found=f"{sum(sizes.values()) / MEBIBYTE:.1f} MiB in {len(sizes)} files",
            remedy="take out what does not serve, or raise conversion.max_size_mib in the release file",
        )


# zipfile raises a plain RuntimeError where a member is encrypted, or packed in a way that Python does not know.
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def _unpack(archive: Path, folder: Path, limit_bytes: int) -> list[str]:
    """Write an archive's wanted files below `folder`; return what was left out."""
    try:
        with _opened(archive) as entries:
            files = {name: (size, read) for name, size, read in entries}
            wanted = {name: size for name, (size, _) in files.items() if is_model_file(name)}
            require_plain_and_small(wanted, limit_bytes, archive.name)
            for name, size in wanted.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with files[name][1]() as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
                if target.stat().st_size != size:
                    raise ValueError(f"{name} is not as long as the archive says")
    except (*_DAMAGED, EOFError, OSError, ValueError, RuntimeError, OverflowError) as error:
        raise PodError(
            "ModelInvalidError",
            f"{archive.name} cannot be unpacked",
            expected=f"a whole archive ({', '.join(ARCHIVES)}) of plain files",
            found=first_line(error),
            remedy="pack it again and upload it whole",
        ) from error
    return sorted(files.keys() - wanted.keys())


@contextmanager
def _opened(archive: Path) -> Iterator[list[Entry]]:
    """Return the regular files of an archive."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as bundle:
            infos = [one for one in bundle.infolist() if not one.filename.endswith("/")]
            yield [(one.filename, one.file_size, partial(bundle.open, one)) for one in infos]
        return
    with tarfile.open(archive) as tar:
        members = [one for one in tar.getmembers() if one.isfile()]
        yield [(one.name.removeprefix("./"), one.size, partial(_regular_file, tar, one)) for one in members]


def _regular_file(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    if content is None:
        raise ValueError(f"{member.name} is not a regular file")
    return content
