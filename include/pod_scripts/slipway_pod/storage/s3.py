"""S3, with PodErrors in place of its errors: missing, forbidden, or temporary."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.storage.refusals import refusal, remedy_of
from slipway_pod.storage.upload import HashedUpload, part_bytes
from slipway_rules.pod_files import S3_ENCRYPTION_VARIABLE

CHECKSUM = "SHA256"
PIECE_BYTES = 2**20
BROKEN_OFF = 4  # how often in a row an answer may break off without a byte
# The server-side encryption of what is written: boto's arguments, as JSON; left out: the bucket's default.
# boto3's transfers have no argument for the bucket's key; the bucket's own setting applies.
ENCRYPTION_ARGUMENTS = ("ServerSideEncryption", "SSEKMSKeyId")


class Store:
    """S3, by the standard AWS_* environment. Every method raises PodError.

    `inputs` is what was downloaded so far: size_bytes and sha256 (hexadecimal) by address.
    """

    def __init__(self, *, read_timeout_s: float = 60) -> None:
        import boto3
        from botocore.config import Config

        retries: Any = {"mode": "standard", "total_max_attempts": 4}
        patience = Config(connect_timeout=5, read_timeout=read_timeout_s, retries=retries)
        self._client = boto3.client("s3", config=patience)
        self.inputs: dict[str, dict[str, Any]] = {}
        asked = json.loads(os.environ.get(S3_ENCRYPTION_VARIABLE) or "{}")
        self._encryption = {name: asked[name] for name in ENCRYPTION_ARGUMENTS if name in asked}

    def download(self, url: str, target: Path) -> None:
        """Write an object to a file, whose folder is made."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with store_errors(url) as (bucket, key):
            self._client.download_file(bucket, key, str(target))
        self.inputs[url] = {"size_bytes": target.stat().st_size, "sha256": sha256(target)}

    def fetch_if_there(self, url: str, target: Path) -> bool:
        """Download an object that need not be there; return whether it was."""
        try:
            self.download(url, target)
        except PodError as error:
            if error.kind != "InputMissingError":
                raise
            target.unlink(missing_ok=True)
            return False
        return True

    def sizes(self, url: str, most: int | None = None) -> dict[str, int]:
        """Return the size in bytes by name, relative to the folder, of the objects below it, or of its first `most`."""
        with store_errors(url) as (bucket, key):
            prefix = f"{key.rstrip('/')}/"
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=prefix, PaginationConfig={"MaxItems": most}
            )
            entries = (entry for page in pages for entry in page.get("Contents", ()))
            return {entry["Key"].removeprefix(prefix): entry["Size"] for entry in entries}

    def download_folder(self, url: str, folder: Path, most: int | None = None) -> int:
        """Write all objects below an address into a folder; return how many: one at least, `most` at most."""
        listed = self.sizes(url, None if most is None else most + 1)
        names = [name for name in listed if not name.endswith("/")]
        if not names or (most is not None and len(listed) > most):
            what = f"{url} does not hold what it should"
            expected = "at least one file" if most is None else f"1 to {most} files"
            found = f"more than {most}" if names else "none"
            remedy = "put the files there, or correct the address in the release file"
            raise PodError("InputMissingError", what, expected=expected, found=found, remedy=remedy)
        for name in names:
            if ".." in name.split("/"):
                raise PodError("UserError", f"{name!r} in {url} is not a plain path", remedy="rename it")
            self.download(f"{url}/{name}", folder / name)
        return len(names)

    def pieces(self, url: str, size_bytes: int) -> Iterator[bytes]:
        """Return an object's bytes, some at a time; an answer that breaks off is asked for again from there.

        Whoever reads ends it when there are more than the `size_bytes` that were expected.
        """
        done, etag, failures = 0, "", 0
        while True:
            rest = {"Range": f"bytes={done}-", "IfMatch": etag} if done else {}
            try:
                with store_errors(url) as (bucket, key):
                    answer = self._client.get_object(Bucket=bucket, Key=key, **rest)
                    etag = answer["ETag"]
                    for piece in answer["Body"].iter_chunks(PIECE_BYTES):
                        done, failures = done + len(piece), 0
                        yield piece
                return
            except PodError as error:
                failures += 1
                if error.kind != "StoreUnavailableError" or failures == BROKEN_OFF or done >= size_bytes:
                    raise
            time.sleep(failures)

    def read(self, url: str, most_bytes: int) -> bytes:
        """Return the bytes of an object that is not larger than that."""
        content = bytearray()
        for piece in self.pieces(url, most_bytes):
            content += piece
            if len(content) > most_bytes:
                what, expected = f"{url} is larger than it may be", f"at most {most_bytes} bytes"
                raise PodError("UserError", what, expected=expected, remedy="find out who wrote it")
        return bytes(content)

    def upload(self, path: Path, url: str) -> dict[str, Any]:
        """Write a file to an object; return what was sent, as `HashedUpload.measured` has it."""
        (measured,) = self._send({url: path})
        return measured

    def upload_folder(self, folder: Path, url: str) -> list[dict[str, Any]]:
        """Write every file below a folder, some at once; return path and what was sent of each, in order."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        places = [path.relative_to(folder).as_posix() for path in paths]
        sent = self._send({f"{url}/{place}": path for place, path in zip(places, paths, strict=True)})
        return [{"path": place, **measured} for place, measured in zip(places, sent, strict=True)]

    def _send(self, files: Mapping[str, Path]) -> list[dict[str, Any]]:
        """Send files to their addresses; S3 checks each piece. One pool of threads bounds what is in memory."""
        from boto3.s3.transfer import TransferConfig, create_transfer_manager

        largest = max((path.stat().st_size for path in files.values()), default=0)
        size = part_bytes(largest)
        config = TransferConfig(multipart_threshold=size, multipart_chunksize=size)
        uploads = [HashedUpload(path, size) for path in files.values()]
        with create_transfer_manager(self._client, config) as manager:
            futures = []
            for url, upload in zip(files, uploads, strict=True):
                bucket, key = split_url(url)
                extra = {"ChecksumAlgorithm": CHECKSUM, **self._encryption}
                futures.append(manager.upload(upload, bucket, key, extra_args=extra))
            for url, future in zip(files, futures, strict=True):
                with store_errors(url):
                    future.result()
        return [upload.measured() for upload in uploads]

    def read_json(self, url: str) -> Any:
        """Return the value of a JSON object."""
        with store_errors(url) as (bucket, key):
            body = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        try:
            return json.loads(body)
        except ValueError as error:
            remedy = "write it again, or correct the address in the release file"
            raise PodError("UserError", f"{url} is not JSON", found=str(error), remedy=remedy) from error

    def write_json(self, value: Mapping[str, Any], url: str) -> None:
        """Write a value as JSON."""
        body = json.dumps(value, indent=2, allow_nan=False).encode()
        about = {"ContentType": "application/json", "ChecksumAlgorithm": CHECKSUM, **self._encryption}
        with store_errors(url) as (bucket, key):
            self._client.put_object(Bucket=bucket, Key=key, Body=body, **about)

    def delete(self, url: str) -> None:
        """Remove an object; one that is not there is no error."""
        with store_errors(url) as (bucket, key):
            self._client.delete_object(Bucket=bucket, Key=key)


@contextmanager
def store_errors(url: str) -> Iterator[tuple[str, str]]:
    """Yield bucket and key; raise a PodError in place of boto3's errors: missing, forbidden, or temporary."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield split_url(url)
    except (BotoCoreError, Boto3Error, ClientError, OSError) as error:
        # The error of an upload hides its cause.
        causes = [error, error.__cause__, error.__context__]
        answer: Any = next((cause.response for cause in causes if isinstance(cause, ClientError)), {})
        code = answer.get("Error", {}).get("Code", type(error).__name__)
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in ("NoSuchKey", "NoSuchBucket") or status == 404:
            kind, what = "InputMissingError", f"There is no {url}"
            remedy = "put the object there, or correct the address in the release file"
        elif status in (401, 403) or isinstance(error, NoCredentialsError):
            kind, what = "UserError", f"S3 gives no access to {url}"
            remedy = "give the pod's service account a role that may read and write the bucket"
        else:
            kind, what = "StoreUnavailableError", f"S3 {'fails' if status else 'does not answer'} for {url}"
            remedy = "check AWS_ENDPOINT_URL, the network and the store, then run the task again"
        found, better = refusal(answer, code), remedy_of(answer, code)
        raise PodError(kind, what, found=found, remedy=better or remedy) from error


def split_url(url: str) -> tuple[str, str]:
    """Return bucket and key: `s3://bucket/a/b` → (`bucket`, `a/b`)."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def sha256(path: Path) -> str:
    """Return a file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
