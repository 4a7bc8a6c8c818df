"""Transfers in S3 without holding the bytes: streams that resume where they broke off, and copies by the store."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from boto3.s3.transfer import TransferConfig, TransferManager
from botocore.exceptions import (
    ClientError,
    FlexibleChecksumError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from urllib3.exceptions import ProtocolError

from slipway_core.spec.release_file import Encryption

T = TypeVar("T")

SINGLE_COPY_LIMIT_BYTES = 5 * 2**30
"""Above it S3 copies in parts only, and gives no SHA-256 of the whole.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
"""

PART_BYTES = 512 * 2**20
"""Of a copy in parts."""
_CHUNK_BYTES = 1 << 20
# botocore tries a request again whose answer does not begin; an answer that breaks off is tried again here.
_BROKEN_OFF = (
    FlexibleChecksumError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
    ProtocolError,
)
_ATTEMPTS = 5
_FIRST_PAUSE_S = 0.1


@dataclass(frozen=True)
class ObjectSettings:
    """The settings that an object is stored with. `encryption` holds boto's arguments for it."""

    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: str = ""
    encryption: Mapping[str, Any] = field(default_factory=dict)

    def put_arguments(self) -> dict[str, Any]:
        """Return the arguments of PutObject and CreateMultipartUpload."""
        tagging = {"Tagging": self.tags} if self.tags else {}
        return {
            "ContentType": self.content_type,
            "Metadata": dict(self.metadata),
            **tagging,
            **self.encryption,
        }

    def copy_arguments(self) -> dict[str, Any]:
        """Return the arguments of CopyObject, by which the copy takes nothing over but the bytes."""
        return {**self.put_arguments(), "MetadataDirective": "REPLACE", "TaggingDirective": "REPLACE"}


@dataclass(frozen=True)
class ObjectFacts:
    """What the store says of an object. `sha256` is its own, of the whole object, or None where it keeps none.

    `version_id` is None in a bucket without versioning. `parts_sha256` is what it keeps of an object that came in
    parts, as `PartsDigest` has it.
    """

    size_bytes: int
    etag: str
    version_id: str | None
    sha256: str | None
    parts_sha256: str | None


def encryption_arguments(encryption: Encryption) -> dict[str, Any]:
    """Return boto's arguments for a server-side encryption, for PutObject, CopyObject and CreateMultipartUpload."""
    arguments: dict[str, Any] = {"ServerSideEncryption": encryption.algorithm}
    if encryption.kms_key_id is not None:
        arguments["SSEKMSKeyId"] = encryption.kms_key_id
    if encryption.bucket_key:
        arguments["BucketKeyEnabled"] = True
    return arguments


def facts_of(answer: Mapping[str, Any]) -> ObjectFacts:
    """Read the answer to a HeadObject that asked for checksums."""
    version_id, etag = answer.get("VersionId"), answer["ETag"]
    sha256 = whole_sha256(answer, etag=etag)
    # S3 writes the number of parts behind it, other stores do not.
    of_parts = None if sha256 else str(answer.get("ChecksumSHA256", "")).partition("-")[0]
    return ObjectFacts(
        size_bytes=int(answer["ContentLength"]),
        etag=etag,
        version_id=None if version_id in (None, "null") else version_id,
        sha256=sha256,
        parts_sha256=of_parts or None,
    )


def whole_sha256(answer: Mapping[str, Any], *, etag: str) -> str | None:
    """Return the SHA-256 of the whole object, in hex, if the answer carries it: of parts S3 has only a digest of
    digests.
    """
    encoded = answer.get("ChecksumSHA256")
    if not encoded or "-" in encoded or "-" in etag or answer.get("ChecksumType") == "COMPOSITE":
        return None
    return base64.b64decode(encoded).hex()


def distrust_short_answers(response_dict: dict[str, Any], operation_model: Any, **_: Any) -> None:
    """For botocore's event ``before-parse``: an answer shorter than it says counts as error 500, and is tried again.

    botocore does not compare, and takes a body that broke off before its first byte for an answer without content:
    a listing in which nothing lies.
    """
    body, declared = response_dict["body"], response_dict["headers"].get("Content-Length")
    is_read = isinstance(body, bytes) and operation_model.http["method"] != "HEAD"
    if is_read and declared is not None and len(body) < int(declared) and response_dict["status_code"] < 300:
        response_dict["status_code"] = 500


class OversizedError(Exception):
    """An object is too large; nothing of it was read."""


@dataclass(frozen=True)
class StoredContent:
    """An object as it was read: its bytes, its entity tag, and when it was written (UTC)."""

    body: bytes
    etag: str
    written_at: datetime


def read_whole(client: Any, request: Mapping[str, Any], most_bytes: int | None = None) -> StoredContent:
    """Return a small object, read whole.

    :raises OversizedError: it has more than `most_bytes`.
    """

    def read() -> StoredContent:
        answer = client.get_object(**request)
        if most_bytes is not None and answer["ContentLength"] > most_bytes:
            answer["Body"].close()
            raise OversizedError(f"{answer['ContentLength']} bytes")
        return StoredContent(answer["Body"].read(), answer["ETag"], answer["LastModified"])

    return _patiently(read)


def download(client: Any, request: Mapping[str, Any], target: Path, size_bytes: int) -> None:
    """Write an object to a file.

    :raises OversizedError: it has not `size_bytes`; nothing of it was read.
    """

    def read() -> None:
        answer = client.get_object(**request)
        if answer["ContentLength"] != size_bytes:
            answer["Body"].close()
            raise OversizedError(f"{answer['ContentLength']} bytes")
        with target.open("wb") as file:
            for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                file.write(chunk)

    _patiently(read)


def stream_sha256(client: Any, request: Mapping[str, Any]) -> tuple[str, int]:
    """Return the SHA-256, in hex, and the size of an object of any size, read once; a read that breaks off goes on
    there.
    """
    reading = _Reading(client, request)
    while not reading.is_over:
        _patiently(reading.resume)
    return reading.digest.hexdigest(), reading.size_bytes


class _Reading:
    """How far an object was read; `resume` can be called again when it has raised."""

    def __init__(self, client: Any, request: Mapping[str, Any]) -> None:
        self._client = client
        self._request = dict(request)
        self._total: int | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self.digest, self.size_bytes, self.is_over = hashlib.sha256(), 0, False
        self._condition: dict[str, str] = {}

    def resume(self) -> None:
        """Read from where the last attempt ended, of the same object, to the end."""
        try:
            for chunk in self._chunks():
                self.digest.update(chunk)
                self.size_bytes += len(chunk)
        except FlexibleChecksumError:
            self._start_anew()  # which of the bytes are wrong is not known
            raise
        self.is_over = True

    def _chunks(self) -> Iterator[bytes]:
        if self.size_bytes and self.size_bytes == self._total:
            return
        rest = {"Range": f"bytes={self.size_bytes}-"} if self.size_bytes else {}
        answer = self._client.get_object(**self._request, **rest, **self._condition)
        self._condition = {"IfMatch": answer["ETag"]}
        self._total = self.size_bytes + int(answer["ContentLength"])
        yield from answer["Body"].iter_chunks(_CHUNK_BYTES)


def copy_object(
    client: Any,
    source: Mapping[str, str],
    destination: Mapping[str, str],
    settings: ObjectSettings,
    *,
    size_bytes: int,
    has_sha256: bool = False,
    part_bytes: int | None = None,
) -> str | None:
    """Copy inside the store, without a byte through this machine.

    :param source: ``Bucket``, ``Key`` and perhaps ``VersionId``.
    :param destination: ``Bucket`` and ``Key``.
    :param has_sha256: the store has the source's; a copy takes it over, so nothing is computed anew.
        https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html (x-amz-checksum-algorithm)
    :param part_bytes: how large the parts are above that limit, if not `PART_BYTES`; with the source's own, S3 comes
        to the same digest of their digests.
    :return: the copy's SHA-256, in hex, by the store's word; None where it has none.
    """
    if size_bytes > SINGLE_COPY_LIMIT_BYTES:
        _copy_parts(client, source, destination, settings, part_bytes or PART_BYTES)
        return None
    digest = {} if has_sha256 else {"ChecksumAlgorithm": "SHA256"}
    answer = client.copy_object(
        **destination, CopySource=dict(source), **digest, **settings.copy_arguments()
    )["CopyObjectResult"]
    return whole_sha256(answer, etag=answer["ETag"])


def _copy_parts(
    client: Any,
    source: Mapping[str, str],
    destination: Mapping[str, str],
    settings: ObjectSettings,
    part_bytes: int,
) -> None:
    """Copy in parts, many at once; each part names the source's entity tag.

    VersityGW gives each part the digest of its whole source, and then refuses one of a source that came in parts
    itself. Without digests it copies; who wants to know what the copy holds has to read it there.
    """
    config = TransferConfig(
        multipart_threshold=SINGLE_COPY_LIMIT_BYTES, multipart_chunksize=part_bytes, max_concurrency=8
    )
    for digest in ({"ChecksumAlgorithm": "SHA256"}, {}):
        arguments = {**settings.copy_arguments(), **digest}
        with _CopyManager(client, config) as manager:
            copying = manager.copy(dict(source), destination["Bucket"], destination["Key"], arguments)
            try:
                copying.result()
                return
            except ClientError as error:
                if not digest or error.response["Error"].get("Code") != "InvalidArgument":
                    raise


class _CopyManager(TransferManager):  # type: ignore[misc]  # boto3 comes without types
    """boto3's own, which does not know the argument for the bucket's key, though CreateMultipartUpload takes it."""

    ALLOWED_COPY_ARGS: ClassVar = [*TransferManager.ALLOWED_COPY_ARGS, "BucketKeyEnabled"]


def _patiently(act: Callable[[], T]) -> T:
    """Repeat `act`, after a pause that doubles, while answers break off; raise what the last attempt raised."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return act()
        except _BROKEN_OFF:
            time.sleep(_FIRST_PAUSE_S * 2**attempt)
    return act()
