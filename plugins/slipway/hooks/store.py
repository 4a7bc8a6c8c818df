"""The object store that holds artefacts, published versions, evidence and the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk import BaseHook
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from include.model_release.errors import InputMissingError, StoreUnavailableError

_MISSING = frozenset({"404", "NoSuchKey", "NotFound"})
_PRECONDITION = frozenset({"412", "PreconditionFailed", "409", "ConditionalRequestConflict"})
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class StoredObject:
    """A listed object: its full key, size in bytes and entity tag."""

    key: str
    size_bytes: int
    etag: str


class ModelStoreHook(BaseHook):
    """Reads and writes one bucket.

    "Could not read" (`StoreUnavailableError`) is never reported as "is absent" (`None` or `InputMissingError`).

    :param bucket: name of the bucket.
    :param aws_conn_id: an Airflow connection of type ``aws``; its endpoint may be any S3.
    """

    def __init__(self, bucket: str, aws_conn_id: str = "aws_default") -> None:
        super().__init__()
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id

    @cached_property
    def client(self) -> Any:
        """The boto3 client of the connection."""
        return S3Hook(aws_conn_id=self.aws_conn_id).get_conn()

    def uri(self, key: str) -> str:
        """``s3://BUCKET/KEY``."""
        return f"s3://{self.bucket}/{key}"

    def read(self, key: str) -> bytes | None:
        """The object's bytes, or None where the store says that there is no such object."""
        with self._translated(key):
            try:
                body: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            except ClientError as error:
                if _code(error) in _MISSING:
                    return None
                raise
        return body

    def require(self, key: str, *, remedy: str) -> bytes:
        """The object's bytes.

        :raises InputMissingError: there is no such object.
        """
        body = self.read(key)
        if body is None:
            raise InputMissingError(
                f"{self.uri(key)} is missing", expected="an object", found="none", remedy=remedy
            )
        return body

    def read_json(self, key: str) -> Any | None:
        """The object's JSON value, or None where there is no such object."""
        body = self.read(key)
        return None if body is None else json.loads(body)

    def exists(self, key: str) -> bool:
        """Whether the store has the object."""
        with self._translated(key):
            # Not by HEAD: its 404 does not say whether the object or the whole bucket is missing.
            page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1)
        return any(entry["Key"] == key for entry in page.get("Contents", ()))

    def write(self, key: str, body: bytes, *, content_type: str = "application/octet-stream") -> None:
        """Writes the object, replacing what was there."""
        with self._translated(key):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)

    def write_json(self, key: str, value: Mapping[str, Any]) -> None:
        """Writes the object as indented JSON, replacing what was there."""
        self.write(key, json.dumps(value, indent=2).encode(), content_type="application/json")

    def write_once(self, key: str, body: bytes, *, content_type: str = "application/json") -> bool:
        """Writes the object unless it exists already (If-None-Match); says whether it was written."""
        return self._write_if(key, body, content_type, IfNoneMatch="*")

    def replace(self, key: str, body: bytes, etag: str, *, content_type: str = "application/json") -> bool:
        """Writes the object if it is still the one with this entity tag; says whether it was written."""
        return self._write_if(key, body, content_type, IfMatch=etag)

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        """The object's bytes and entity tag, or None where there is no such object."""
        with self._translated(key):
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=key)
                return answer["Body"].read(), answer["ETag"]
            except ClientError as error:
                if _code(error) in _MISSING:
                    return None
                raise

    def entries(self, prefix: str) -> list[StoredObject]:
        """Every object below the prefix, in the order of keys."""
        with self._translated(prefix):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
            return [
                StoredObject(entry["Key"], entry["Size"], entry["ETag"])
                for page in pages
                for entry in page.get("Contents", ())
            ]

    def delete(self, key: str) -> None:
        """Deletes the object; one that is absent already is no error."""
        with self._translated(key):
            self.client.delete_object(Bucket=self.bucket, Key=key)

    def copy(self, source: str, destination: str) -> None:
        """Copies inside the bucket, on the server's side, in parts where the object is large."""
        with self._translated(source):
            try:
                self.client.copy({"Bucket": self.bucket, "Key": source}, self.bucket, destination)
            except ClientError as error:
                if _code(error) in _MISSING:
                    self.exists(source)  # a bucket that is missing is another error
                raise

    def sha256(self, key: str) -> tuple[str, int]:
        """The object's SHA-256 (hexadecimal) and size in bytes, read as a stream."""
        digest, size = hashlib.sha256(), 0
        with self._translated(key):
            for chunk in self.client.get_object(Bucket=self.bucket, Key=key)["Body"].iter_chunks(
                _CHUNK_BYTES
            ):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def _write_if(self, key: str, body: bytes, content_type: str, **condition: str) -> bool:
        with self._translated(key):
            try:
                self.client.put_object(
                    Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, **condition
                )
            except ClientError as error:
                gone = "IfMatch" in condition and _code(error) in _MISSING
                if gone or _code(error) in _PRECONDITION:
                    return False
                raise
        return True

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        """Turns what boto raises into the project's own errors; never quotes a signed address."""
        try:
            yield
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if _code(error) in _MISSING:
                raise InputMissingError(
                    f"{self.uri(key)} is missing",
                    expected="an object",
                    found=_code(error),
                    remedy="check the bucket, the model and the version",
                ) from error
            raise StoreUnavailableError(
                f"the object store refused a request about {self.uri(key)}",
                expected="an answer",
                found=f"{_code(error)} (HTTP {status})",
                remedy=f"check the rights and the endpoint of the connection {self.aws_conn_id!r}",
            ) from error
        except (BotoCoreError, NoCredentialsError) as error:
            raise StoreUnavailableError(
                f"the object store did not answer a request about {self.uri(key)}",
                expected="an answer",
                found=type(error).__name__,
                remedy=f"check the endpoint and the credentials of the connection {self.aws_conn_id!r}",
            ) from error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
