"""A version laid below `incoming/` as a training job lays it: the data first, `ready.json` last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.cli.failures import CommandError, ExitCode
from slipway_core.bucket_layout import READY_FILE
from slipway_core.errors import UserError
from slipway_core.intake import IncomingVersion, parse_ready

if TYPE_CHECKING:
    from slipway.hooks.s3_store import ModelStoreHook

_BLOCK_BYTES = 1 << 20
# Below these a folder named by a number is a version that was there once.
_PLACES = ("incoming", "models", "records")


@dataclass(frozen=True)
class Uploaded:
    """A version that has landed; `uri` is where, `names` are its files in the order in which they were uploaded."""

    model: str
    version: int
    uri: str
    names: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        return {"model": self.model, "version": self.version, "uri": self.uri, "files": list(self.names)}


def next_version(store: ModelStoreHook, model: str) -> int:
    """Return the number after the highest one that a version of this model has, or had."""
    seen = [0]
    for place in _PLACES:
        found = store.listing(f"{place}/{model}/", delimiter="/")
        names = (prefix.rstrip("/").rpartition("/")[2] for prefix in found.folders)
        seen += [int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 19]
    return max(seen) + 1


def ready_file(model: str, version: int, files: Mapping[str, Path], metadata: Mapping[str, Any]) -> bytes:
    """Return `ready.json` with the digests of these files and training's metadata.

    :raises CommandError: the metadata are not valid in a ready.json.
    """
    digests = {name: _sha256(path) for name, path in files.items()}
    known = {name: value for name, value in metadata.items() if value is not None}
    content = json.dumps({"model": model, "version": version, "files": digests, **known}, indent=2).encode()
    try:
        parse_ready(content, IncomingVersion(model, version))
    except UserError as error:
        raise CommandError(
            error.what,
            code=ExitCode.USAGE,
            expected=error.expected,
            found=error.found,
            remedy="slipway upload --help lists the metadata of a version",
        ) from None
    return content


def upload(
    store: ModelStoreHook, model: str, version: int, files: Mapping[str, Path | bytes], ready: bytes
) -> Uploaded:
    """Lay the files, and `ready.json` when they are there: its event may start a release.

    :raises CommandError: this version has landed before.
    """
    prefix = f"incoming/{model}/{version}/"
    if store.exists(f"{prefix}{READY_FILE}"):
        raise _landed_before(store, model, version)
    for name, content in files.items():
        if isinstance(content, bytes):
            store.write(f"{prefix}{name}", content)
        else:
            # In parts, and so without a limit of 5 GiB.
            store.client.upload_file(
                str(content), store.bucket, f"{prefix}{name}", ExtraArgs=store.encryption
            )
    if not store.write_once(f"{prefix}{READY_FILE}", ready):
        raise _landed_before(store, model, version)
    return Uploaded(model, version, store.uri(prefix), (*files, READY_FILE))


def _landed_before(store: ModelStoreHook, model: str, version: int) -> CommandError:
    return CommandError(
        f"version {version} of {model!r} was uploaded before",
        code=ExitCode.USAGE,
        expected=f"no {READY_FILE} below incoming/{model}/{version}/",
        found=store.uri(f"incoming/{model}/{version}/{READY_FILE}"),
        remedy=f"a version never changes: upload it as version {next_version(store, model)}",
    )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
