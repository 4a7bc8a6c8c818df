"""The object store that holds artefacts, published versions, evidence and the record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

from airflow.sdk import BaseHook
from botocore.config import Config
from botocore.exceptions import ClientError

from slipway.hooks.s3_connection import S3Connection
from slipway.hooks.s3_encryption import encryption_of
from slipway.hooks.s3_errors import is_missing, is_precondition_failed, repeat_until_decided, translated
from slipway.hooks.s3_listing import Listing, StoredObject, list_below
from slipway.hooks.s3_transfer import (
    ObjectFacts,
    ObjectSettings,
    OversizedError,
    StoredContent,
    copy_object,
    distrust_short_answers,
    download,
    encryption_arguments,
    facts_of,
    read_whole,
    stream_sha256,
)
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import InputMissingError, UserError
from slipway_core.publishing.publication import PartsDigest
from slipway_core.spec.release_file import Encryption

# S3 asks for patience with 503 SlowDown; botocore's default is 3. AWS_MAX_ATTEMPTS and the connection overrule it.
_ATTEMPTS = 6
_ATTEMPTS_WITH_LIMIT = 2
_CONNECTIONS = 32


class ModelStoreHook(BaseHook):
    """Reads and writes one bucket.

    "Could not read" (`StoreUnavailableError`) is never reported as "is absent" (`None` or `InputMissingError`).

    :param bucket: name of the bucket.
    :param aws_conn_id: an Airflow connection of type ``aws``; its endpoint may be any S3. Under
        ``service_config.s3`` its extra may say ``server_side_encryption`` (``AES256``, ``aws:kms``),
        ``sse_kms_key_id`` and ``bucket_key_enabled`` for everything that is written.
    :param encryption: how everything is encrypted that is written; None: as the connection says.
    :param answer_limit_s: how long a request may wait to connect, and then for an answer, whatever the connection says;
        it is asked once more then. For who has something better to do than to wait. None: 60 s, six times.
    """

    def __init__(
        self,
        bucket: str,
        aws_conn_id: str = "aws_default",
        *,
        encryption: Encryption | None = None,
        answer_limit_s: float | None = None,
    ) -> None:
        super().__init__()
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
        self._asked = encryption
        self._answer_limit_s = answer_limit_s

    @cached_property
    def client(self) -> Any:
        """Return the boto3 client of the connection."""
        hook = self._connection
        retries: dict[str, Any] = {"mode": "standard"}
        if "AWS_MAX_ATTEMPTS" not in os.environ:
            retries["total_max_attempts"] = _ATTEMPTS
        config = Config(retries=retries, max_pool_connections=_CONNECTIONS).merge(hook.config)
        if self._answer_limit_s is not None:
            limits = {"connect_timeout": self._answer_limit_s, "read_timeout": self._answer_limit_s}
            few = {"total_max_attempts": _ATTEMPTS_WITH_LIMIT, "mode": "standard"}
            config = config.merge(Config(retries=few, **limits))
        client = hook.get_client_type(config=config)
        client.meta.events.register("before-parse.s3", distrust_short_answers)
        return client

    @cached_property
    def encryption(self) -> dict[str, Any]:
        """Return boto's arguments for the server-side encryption of what is written; empty: the bucket's own.

        :raises UserError: the connection asks for one that there is not.
        """
        asked = self._asked or encryption_of(self._connection.service_config, self.aws_conn_id)
        return {} if asked is None else encryption_arguments(asked)

    @cached_property
    def _connection(self) -> S3Connection:
        return S3Connection(aws_conn_id=self.aws_conn_id)

    def with_answer_limit(self, answer_limit_s: float) -> ModelStoreHook:
        """Return a hook on the same bucket, encrypted alike, with another limit to each answer."""
        return ModelStoreHook(
            self.bucket, self.aws_conn_id, encryption=self._asked, answer_limit_s=answer_limit_s
        )

    def uri(self, key: str) -> str:
        """Return ``s3://BUCKET/KEY``."""
        return f"s3://{self.bucket}/{key}"

    def read(self, key: str, *, most_bytes: int | None = None) -> bytes | None:
        """Return the object's bytes, or None where the store says that there is no such object; see `fetch`."""
        found = self.fetch(key, most_bytes=most_bytes)
        return None if found is None else found.body

    def require(self, key: str, *, remedy: str, most_bytes: int | None = None) -> bytes:
        """Return the object's bytes.

        :param most_bytes: a larger object is not read.
        :raises InputMissingError: there is no such object.
        :raises UserError: it is larger.
        """
        body = self.read(key, most_bytes=most_bytes)
        if body is None:
            raise InputMissingError(
                f"{self.uri(key)} is missing", expected="an object", found="none", remedy=remedy
            )
        return body

    def read_json(self, key: str, *, most_bytes: int | None = None) -> Any | None:
        """Return the object's JSON value, or None where there is no such object.

        :param most_bytes: a larger object is not read.
        :raises UserError: the object is no JSON, or larger.
        """
        body = self.read(key, most_bytes=most_bytes)
        return None if body is None else parse_json(body, self.uri(key))

    def exists(self, key: str) -> bool:
        """Return whether the store has the object."""
        with self._translated(key):
            # Not by HEAD: its 404 does not say whether the object or the whole bucket is missing.
            page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1)
        return any(entry["Key"] == key for entry in page.get("Contents", ()))

    def stat(self, key: str) -> ObjectFacts | None:
        """Return what the store says of the object, without reading it, or None where there is none."""
        with self._translated(key):
            try:
                return facts_of(self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED"))
            except ClientError as error:
                if not is_missing(error):
                    raise
        self.exists(key)  # a bucket that is missing is another error, which a HEAD does not tell
        return None

    def write(
        self,
        key: str,
        body: bytes,
        *,
        content_type: str = "application/octet-stream",
        settings: ObjectSettings | None = None,
    ) -> None:
        """Write the object, replacing what was there."""
        with self._translated(key):
            self._put(key, body, settings or ObjectSettings(content_type))

    def write_json(self, key: str, value: Mapping[str, Any]) -> None:
        """Write the object as indented JSON, replacing what was there."""
        self.write(key, json.dumps(value, indent=2).encode(), content_type="application/json")

    def write_once(
        self,
        key: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        settings: ObjectSettings | None = None,
    ) -> bool:
        """Write the object unless it exists already (If-None-Match); return whether it was written."""
        return self._write_if(key, body, settings or ObjectSettings(content_type), IfNoneMatch="*")

    def upload_once(self, key: str, path: Path) -> bool:
        """Write a file of at most 5 GiB as an object unless it exists already; return whether it was written."""

        def put() -> None:
            with path.open("rb") as file:
                self._put(key, file, ObjectSettings(), IfNoneMatch="*")

        with self._translated(key):
            try:
                repeat_until_decided(put)
            except ClientError as error:
                if is_precondition_failed(error):
                    return False
                raise
        return True

    def replace(self, key: str, body: bytes, etag: str, *, content_type: str = "application/json") -> bool:
        """Write the object if it is still the one with this entity tag; return whether it was written."""
        return self._write_if(key, body, ObjectSettings(content_type), IfMatch=etag)

    def read_with_etag(self, key: str, *, most_bytes: int | None = None) -> tuple[bytes, str] | None:
        """Return what `fetch` returns, without the time."""
        found = self.fetch(key, most_bytes=most_bytes)
        return None if found is None else (found.body, found.etag)

    def fetch(self, key: str, *, most_bytes: int | None = None) -> StoredContent | None:
        """Return the object with its entity tag and its time, or None where there is no such object.

        :param most_bytes: a larger object is not read.
        :raises UserError: it is larger.
        """
        with self._translated(key):
            try:
                return read_whole(self.client, {"Bucket": self.bucket, "Key": key}, most_bytes)
            except ClientError as error:
                if is_missing(error):
                    return None
                raise
            except OversizedError as error:
                raise UserError(
                    f"{self.uri(key)} is too large",
                    expected=f"at most {most_bytes} bytes",
                    found=str(error),
                    remedy="find out who wrote it",
                ) from None

    def download(self, key: str, target: Path, size_bytes: int) -> None:
        """Write an object to a file; raise UserError where it has not as many bytes as it was listed with."""
        with self._translated(key):
            try:
                download(self.client, {"Bucket": self.bucket, "Key": key}, target, size_bytes)
            except OversizedError as error:
                raise UserError(f"{self.uri(key)} was changed", found=str(error)) from None

    def entries(self, prefix: str, *, after: str = "", most: int | None = None) -> list[StoredObject]:
        """Return the objects below the prefix, in the order of keys; those after the key `after`, and no more than
        `most`.
        """
        asked: dict[str, Any] = {"StartAfter": after} if after else {}
        if most is not None:
            asked["PaginationConfig"] = {"MaxItems": most, "PageSize": min(most, 1000)}
        with self._translated(prefix):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, **asked
            )
            return [StoredObject.of(entry) for page in pages for entry in page.get("Contents", ())]

    def listing(
        self, prefix: str, *, delimiter: str = "", pages: int | None = None, page_size: int | None = None
    ) -> Listing:
        """Return what lies below the prefix.

        :param delimiter: where a folder ends; empty: there are none, and everything below is an object.
        :param pages: how many requests it may take, each for `page_size` names; None: as many as there are.
        """
        with self._translated(prefix):
            return list_below(self.client, self.bucket, prefix, delimiter, pages, page_size)

    def delete(self, key: str) -> None:
        """Delete the object; one that is absent already is no error. A bucket with versioning keeps its versions."""
        with self._translated(key):
            self.client.delete_object(Bucket=self.bucket, Key=key)

    def delete_this(self, key: str, etag: str) -> None:
        """Delete the object if it is still the one with this entity tag (If-Match); another one stays.

        A store that does not know the condition deletes the object whatever its tag is; `s3_guarantees` finds it out.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html
        """
        with self._translated(key):
            try:
                repeat_until_decided(
                    partial(self.client.delete_object, Bucket=self.bucket, Key=key, IfMatch=etag)
                )
            except ClientError as error:
                if not (is_missing(error) or is_precondition_failed(error)):
                    raise

    def abort_uploads(self, prefix: str) -> int:
        """Drop the parts of uploads below the prefix that were begun and never ended; return how many there were."""
        with self._translated(prefix):
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket, Prefix=prefix
            )
            begun = [(entry["Key"], entry["UploadId"]) for page in pages for entry in page.get("Uploads", ())]
            for key, upload_id in begun:
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
        return len(begun)

    def copy(
        self,
        source: str,
        destination: str,
        *,
        version_id: str | None = None,
        size_bytes: int | None = None,
        settings: ObjectSettings | None = None,
        has_sha256: bool = False,
        parts: PartsDigest | None = None,
    ) -> str | None:
        """Copy inside the bucket, on the server's side.

        :param version_id: which version of the source; None: the latest.
        :param size_bytes: the source's size, where the caller knows it.
        :param settings: what the copy is stored with.
        :param has_sha256: the store has the source's SHA-256; it is taken over, not computed anew.
        :param parts: what the store has of a source that came in parts; a copy in parts is made of the same.
        :return: the SHA-256 of the copy, in hex, by the store's word; None: it has none.
        :raises InputMissingError: there is no such source.
        """
        origin = {"Bucket": self.bucket, "Key": source}
        if version_id is not None:
            origin["VersionId"] = version_id
        with self._translated(source):
            try:
                if size_bytes is None:
                    size_bytes = int(self.client.head_object(**origin)["ContentLength"])
                return repeat_until_decided(
                    partial(
                        copy_object,
                        self.client,
                        origin,
                        {"Bucket": self.bucket, "Key": destination},
                        self._encrypted(settings or ObjectSettings()),
                        size_bytes=size_bytes,
                        has_sha256=has_sha256,
                        part_bytes=None if parts is None else parts.size_bytes,
                    )
                )
            except ClientError as error:
                if is_missing(error):
                    self.exists(source)  # a bucket that is missing is another error
                raise

    def sha256(self, key: str, version_id: str | None = None) -> tuple[str, int]:
        """Return the object's SHA-256 (hexadecimal) and size in bytes, read as a stream."""
        version = {} if version_id is None else {"VersionId": version_id}
        with self._translated(key):
            return stream_sha256(self.client, {"Bucket": self.bucket, "Key": key, **version})

    def _encrypted(self, settings: ObjectSettings) -> ObjectSettings:
        return settings if settings.encryption else replace(settings, encryption=self.encryption)

    def _put(self, key: str, body: bytes | BinaryIO, settings: ObjectSettings, **condition: str) -> None:
        # S3 checks the SHA-256 while it takes the bytes, and keeps it: `stat` knows it without a read.
        self.client.put_object(
            Bucket=self.bucket,
            Key=key,
            Body=body,
            ChecksumAlgorithm="SHA256",
            **self._encrypted(settings).put_arguments(),
            **condition,
        )

    def _write_if(self, key: str, body: bytes, settings: ObjectSettings, **condition: str) -> bool:
        with self._translated(key):
            try:
                repeat_until_decided(partial(self._put, key, body, settings, **condition))
            except ClientError as error:
                gone = "IfMatch" in condition and is_missing(error)
                if not (gone or is_precondition_failed(error)):
                    raise
                if "IfMatch" in condition:
                    self.exists(key)  # SeaweedFS says so of a bucket that is missing, which is another error
                return False
        return True

    def _translated(self, key: str) -> AbstractContextManager[None]:
        return translated(self.uri(key), self.aws_conn_id)
