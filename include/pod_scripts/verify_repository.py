#!/usr/bin/env python3
"""Downloads a published version for an inference server: nothing but what was published.

Called as KServe calls a storage initializer: `verify_repository.py SOURCE DESTINATION`. SOURCE is
s3://BUCKET/models/MODEL/VERSION/repository, DESTINATION a folder that is empty or was filled by this program.
The manifest is read first: it must be that of this model and version and, where public keys are given, signed
by one of them. The repository must hold its files and no others. Each is checked, size and SHA-256, while it
is written. What fails leaves nothing in DESTINATION that a server could load, and one line on standard error
that says why.

Environment: AWS_* as for every client of S3. SLIPWAY_PUBLIC_KEYS, public keys as PEM, or
SLIPWAY_PUBLIC_KEY_FILE, a file with them; without both no signature is demanded. SLIPWAY_VERIFY_TIMEOUT_S,
SLIPWAY_VERIFY_STALL_S and SLIPWAY_VERIFY_WORKERS stand for the options.

Exit codes: 0 done; 2 wrong usage; 3 it is not what was published; 4 its signature is refused; 75 try again
later (S3 does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from slipway_pod.errors import PodError, unexpected
from slipway_pod.program.arguments import new_parser, positive, whole
from slipway_pod.program.progress import say
from slipway_pod.program.result import stop
from slipway_pod.program.supervision import supervised
from slipway_pod.storage.placing import filled
from slipway_pod.storage.s3 import Store
from slipway_pod.verification.download import download
from slipway_pod.verification.signature import load_public_keys
from slipway_pod.verification.version_manifest import Manifest, parse_source

KEYS_VARIABLE = "SLIPWAY_PUBLIC_KEYS"
KEY_FILE_VARIABLE = "SLIPWAY_PUBLIC_KEY_FILE"
READ_TIMEOUT_S = 20


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = new_parser(__doc__)
    parser.add_argument("source", metavar="SOURCE", help="s3://BUCKET/models/MODEL/VERSION/repository")
    parser.add_argument("destination", metavar="DESTINATION", type=Path, help="where the server looks")
    for option, kind, default, text in (
        ("timeout-s", positive, "3600", "limit of the run"),
        ("stall-s", positive, "60", "limit of the time in which no byte comes"),
        ("workers", whole, "4", "how many files are on their way at once"),
    ):
        variable = f"SLIPWAY_VERIFY_{option.replace('-', '_').upper()}"
        value = os.environ.get(variable, default)
        parser.add_argument(f"--{option}", type=kind, default=value, help=f"{text} (default: %(default)s)")
    return parser.parse_args(argv)


def public_keys() -> list[Any]:
    """Return the keys of which one must have signed; none where no signature is demanded."""
    if KEYS_VARIABLE in os.environ:
        return load_public_keys(os.environ[KEYS_VARIABLE].encode(), KEYS_VARIABLE)
    if KEY_FILE_VARIABLE not in os.environ:
        return []
    path = Path(os.environ[KEY_FILE_VARIABLE])
    try:
        return load_public_keys(path.read_bytes(), str(path))
    except OSError as error:
        what = f"{KEY_FILE_VARIABLE} names a file that cannot be read"
        raise PodError("UserError", what, found=f"{path}: {error.strerror}", remedy="mount it") from error


def verify(options: argparse.Namespace) -> None:
    """Download and check the version; leave nothing in the destination where that fails."""
    version, keys = parse_source(options.source), public_keys()
    about: dict[str, object] = {"source": version.source, "signed": bool(keys)}
    with filled(options.destination, about) as folder:
        store = Store(read_timeout_s=min(READ_TIMEOUT_S, options.stall_s))
        manifest: Manifest = supervised(
            lambda progress: download(store, version, keys, folder, progress, options.workers),
            options.timeout_s,
            options.stall_s,
        )
        about["manifest_sha256"] = manifest.signed_sha256
    size_bytes = sum(entry.size_bytes for entry in manifest.files.values())
    how = "signed" if keys else "no key is given: its signature was not looked at"
    say("verified", f"{version}, {len(manifest.files)} files, {size_bytes} bytes; {how}")


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(argv)
    signal.signal(signal.SIGTERM, stop)
    os.umask(0o022)  # the server runs as another user
    try:
        verify(options)
    except PodError as error:
        failure = error
    except Exception as error:  # the kubelet gets one line, whatever it is
        failure = unexpected(error, "verification")
    else:
        return 0
    print(f"error: {' '.join(str(failure).split())}", file=sys.stderr, flush=True)
    return failure.exit_code


def leave(code: int) -> NoReturn:
    """End the process at once, also while threads still wait for S3."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    try:
        leave(main())
    except SystemExit as ending:
        leave(ending.code if isinstance(ending.code, int) else 1)
