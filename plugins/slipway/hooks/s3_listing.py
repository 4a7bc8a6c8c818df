"""Listings of a bucket: objects with the facts that a listing has, and folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any


@dataclass(frozen=True)
class StoredObject:
    """A listed object: its full key, size in bytes, entity tag, and when it was written (UTC).

    The same bytes written once more are the same object: the time is not compared.
    """

    key: str
    size_bytes: int
    etag: str
    written_at: datetime = field(compare=False)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> StoredObject:
        """Read an entry of boto's listing."""
        return cls(entry["Key"], entry["Size"], entry["ETag"], entry["LastModified"])


@dataclass(frozen=True)
class Listing:
    """What lies below a prefix, in the order of keys: objects, and folders by their whole prefix.

    Without a delimiter there are no folders, and every object below the prefix is listed. `is_whole` is false
    where pages were left out.
    """

    objects: list[StoredObject]
    folders: list[str]
    is_whole: bool


def list_below(
    client: Any, bucket: str, prefix: str, delimiter: str, pages: int | None, page_size: int | None
) -> Listing:
    """List with boto's client in at most so many pages; None: as many as there are."""
    split = {"Delimiter": delimiter} if delimiter else {}
    sized = {"PaginationConfig": {"PageSize": page_size}} if page_size else {}
    asked = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **split, **sized)
    objects: list[StoredObject] = []
    folders: list[str] = []
    is_whole = True
    for page in islice(asked, pages):
        objects += [StoredObject.of(entry) for entry in page.get("Contents", ())]
        folders += [entry["Prefix"] for entry in page.get("CommonPrefixes", ())]
        is_whole = not page.get("IsTruncated", False)
    return Listing(objects, folders, is_whole)
