"""Where things lie: the keys of a model version in the bucket, the inside of a model repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from include.model_release.errors import ForeignChangeError
from include.model_release.model_config import (
    MODEL_FILES,
    Config,
    build_config,
    canonical_config,
    config_sha256,
    pin_versions,
    rename_config,
    served_signature,
)
from include.model_release.names import parse_version, validate_model_name

__all__ = [
    "MODEL_FILES",
    "Config",
    "RepositoryPaths",
    "Role",
    "build_config",
    "canonical_config",
    "config_sha256",
    "incoming_prefix",
    "parse_storage_uri",
    "pin_versions",
    "rename_config",
    "repository_paths",
    "s3_uri",
    "served_signature",
    "split_s3_uri",
    "staged_key",
    "staged_name",
]

CONFIG_FILE = "config.pbtxt"
READY_FILE = "ready.json"
MANIFEST_FILE = "manifest.json"

_STORAGE_URI = re.compile(r"s3://[^/]+/models/(?P<model>[^/]+)/(?P<version>[1-9][0-9]*)/repository")

Role = Literal["candidate", "stable"]


@dataclass(frozen=True)
class RepositoryPaths:
    """The keys of one version, without the bucket; prefixes end with a slash.

    `config_file` and `model_file` are relative to `repository`, and what the manifest calls the files.
    """

    model: str
    version: int
    incoming: str
    ready: str
    work: str
    root: str
    repository: str
    manifest: str
    evidence: str
    records: str
    config_file: str
    model_file: str

    def storage_uri(self, bucket: str) -> str:
        """Return the `storageUri` of an InferenceService that serves this version: its model repository."""
        return s3_uri(bucket, self.repository.rstrip("/"))


def repository_paths(model: str, version: int, model_file: str = "model.onnx") -> RepositoryPaths:
    """Return the keys of a version.

    Raises UnknownModelError or VersionInvalidError for what could not be a path.
    """
    name, number = validate_model_name(model), parse_version(version)
    here = f"{name}/{number}/"
    return RepositoryPaths(
        model=name,
        version=number,
        incoming=f"incoming/{here}",
        ready=f"incoming/{here}{READY_FILE}",
        work=f"work/{here}convert/",
        root=f"models/{here}",
        repository=f"models/{here}repository/",
        manifest=f"models/{here}{MANIFEST_FILE}",
        evidence=f"models/{here}evidence/",
        records=f"records/{here}",
        config_file=f"{name}/{CONFIG_FILE}",
        model_file=f"{name}/{number}/{model_file}",
    )


def incoming_prefix(model: str) -> str:
    """Return the prefix under which all versions of a model arrive."""
    return f"incoming/{validate_model_name(model)}/"


def staged_name(model: str, role: Role) -> str:
    """Return what a model is called on the staging server.

    The stable version stands beside the candidate under a name of its own; the underscore keeps it apart
    from every real model, whose names have none.
    """
    name = validate_model_name(model)
    return name if role == "candidate" else f"{name}_baseline"


def staged_key(repository_file: str, name: str) -> str:
    """Return the staging key of a repository file, `MODEL/…`, for a model called `name` on staging."""
    _, separator, rest = repository_file.partition("/")
    if not separator or not rest or ".." in repository_file.split("/"):
        raise ValueError(f"{repository_file!r} is not a file inside a model repository")
    return f"staging/{name}/{rest}"


def s3_uri(bucket: str, key: str) -> str:
    """Join bucket and key."""
    return f"s3://{bucket}/{key}"


def split_s3_uri(uri: str) -> tuple[str, str]:
    """Split `s3://BUCKET/KEY` into bucket and key (which may be empty).

    Raises ValueError for anything else.
    """
    scheme, separator, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not separator or not bucket:
        raise ValueError(f"{uri!r} is not of the form s3://BUCKET/KEY")
    return bucket, key


def parse_storage_uri(uri: str) -> tuple[str, int]:
    """Return model and version of a `storageUri` that `RepositoryPaths.storage_uri` made.

    Raises ForeignChangeError.
    """
    found = _STORAGE_URI.fullmatch(uri.rstrip("/"))
    if found is None:
        raise ForeignChangeError(
            f"the InferenceService serves {uri!r}, which is no published version",
            expected="s3://BUCKET/models/MODEL/VERSION/repository",
            found=uri,
            remedy="Put the InferenceService back to a published version, or release under another name.",
        )
    return found["model"], int(found["version"])
