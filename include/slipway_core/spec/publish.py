"""The release file's `publish`: how a version is kept in the bucket, and who signs it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from slipway_core.spec.parts import SpecPart, Text

# What S3 takes in a tag: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
_TAG = re.compile(r"[\w\s+\-=.:/@]*")
_KEPT_PREFIXES = (
    "aws:",
    "slipway:",
)  # S3 refuses the first; under the other stands what is known of the version
_PEM = "-----BEGIN "
_RESERVED_TAGS = 5  # what every object of a version is tagged with, of the 10 that S3 allows


def _absolute(text: str) -> str:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError("must be an absolute path without `..`, such as /etc/slipway/signing.pem")
    return text


def _tag_text(text: str) -> str:
    if not _TAG.fullmatch(text):
        raise ValueError("must be letters, digits, spaces and + - = . _ : / @")
    return text


def _tag_key(text: str) -> str:
    if text.startswith(_KEPT_PREFIXES):
        raise ValueError("must not begin with " + " or ".join(_KEPT_PREFIXES))
    return _tag_text(text)


def _public_key(text: str) -> str:
    # What stands in a PEM is looked at where it is used, by an error that never quotes it.
    return text if text.startswith(_PEM) else _absolute(text)


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
PublicKey = Annotated[str, AfterValidator(_public_key)]
TagKey = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_tag_key)]
TagValue = Annotated[str, Field(max_length=256), AfterValidator(_tag_text)]
ObjectTags = Annotated[dict[TagKey, TagValue], Field(max_length=10 - _RESERVED_TAGS)]


class Encryption(SpecPart):
    """Server-side encryption of the version's objects; without it, what the bucket does by default."""

    algorithm: Literal["AES256", "aws:kms", "aws:kms:dsse"] = "aws:kms"
    kms_key_id: Text | None = None
    """Id or ARN of the key; none: the account's own key for S3."""
    bucket_key: bool = False
    """Use an S3 Bucket Key, for fewer calls to KMS."""

    @model_validator(mode="after")
    def _key_needs_kms(self) -> Self:
        if self.algorithm == "AES256" and (self.kms_key_id is not None or self.bucket_key):
            raise ValueError("`kms_key_id` and `bucket_key` need `algorithm: aws:kms`")
        return self


class Signing(SpecPart):
    """The elliptic-curve key that signs the version (OpenSSF model signing); each load verifies with it.

    Naming a key demands a signature: a version without a valid one is refused. It may be of one of `verify_keys`, so
    that a new key can take the place of an old one while versions of both are in use.
    """

    connection: Text | None = None
    """An Airflow connection: `password` is the private key, as PEM, `login` the passphrase if it has one;
    `public_key` in its extra is the public key, as PEM. Only publishing needs the private one.
    """
    private_key_file: AbsolutePath | None = None
    """A file on the worker, such as a mounted secret; PEM, without a passphrase."""
    public_key_file: AbsolutePath | None = None
    """The key that verifies signatures; default: the public half of the private key."""
    verify_keys: tuple[PublicKey, ...] = ()
    """Public keys whose signatures are accepted too, such as the one before: each a PEM, or the path of its file."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        files = (self.private_key_file, self.public_key_file)
        if (self.connection is None) == (files == (None, None)):
            raise ValueError("give either `connection`, or `private_key_file` and `public_key_file`")
        return self


class Publishing(SpecPart):
    """How a version is kept in the bucket."""

    tags: ObjectTags = Field(default_factory=dict)
    """Tags on every object of the version, in addition to those for model and version."""
    tag_objects: bool = True
    """False if the role may not tag (it needs `s3:PutObjectTagging`)."""
    encryption: Encryption | None = None
    signing: Signing | None = None
    """The signing key; without it versions are not signed, and signatures are not required."""
