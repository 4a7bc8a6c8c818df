"""Where things lie: the keys of a model version in the bucket, and the names of its models on staging."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from slipway_core.errors import ForeignChangeError
from slipway_core.identifiers import parse_version, run_folder, validate_model_name
from slipway_rules.pod_files import is_model_file
from slipway_rules.text_forms import MODEL_NAME_LIMIT, is_dns_label
from slipway_rules.version_manifest import CONFIG_FILE, MANIFEST_FILE, published_version

READY_FILE = "ready.json"
MEMBER_MARK = "__"
MODEL_VIEWS_PREFIX = "views/models/"
LIVE_PREFIX = "live/"

_MODEL_VIEW = re.compile(rf"{MODEL_VIEWS_PREFIX}(?P<model>[^/]+)\.json")

Role = Literal["candidate", "stable", "trial", "reference", "measured"]
_STAGED_AS: dict[Role, str] = {
    "candidate": "",
    "stable": "_baseline",
    "trial": "_tuning",
    "reference": "_tuning_reference",
    "measured": "_benchmark",
}


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


def evidence_prefix(model: str, version: int, release_id: str) -> str:
    """Return where a release's reports go; one folder a release, so that none replaces another's."""
    return f"{repository_paths(model, version).evidence}{run_folder(release_id)}/"


def tuning_id(run_id: str) -> str:
    """Return what stands for a release's id where a run of `model_tuning` keeps its evidence.

    Beside the gates' evidence: it stays when the version is deleted, and no check of the version's files minds it.
    """
    return f"tuning-{run_id}"


def benchmark_id(run_id: str) -> str:
    """Return what stands for a release's id where a run of `model_benchmark` keeps its evidence."""
    return f"benchmark-{run_id}"


def incoming_prefix(model: str) -> str:
    """Return the prefix under which all versions of a model arrive."""
    return f"incoming/{validate_model_name(model)}/"


def model_view_key(model: str) -> str:
    """Return where the document of a model lies that pages show."""
    return f"{MODEL_VIEWS_PREFIX}{validate_model_name(model)}.json"


def parse_model_view_key(key: str) -> str | None:
    """Return the model whose document lies under a key; None: it is the key of none."""
    found = _MODEL_VIEW.fullmatch(key)
    return found["model"] if found is not None and is_dns_label(found["model"], MODEL_NAME_LIMIT) else None


def live_key(model: str) -> str:
    """Return where the document of a model's canary lies, while it is watched."""
    return f"{LIVE_PREFIX}{validate_model_name(model)}.json"


def watch_journal_key(model: str) -> str:
    """Return where the watch of a model's canary keeps its journal: beside the records, where no pod may write."""
    return f"records/{validate_model_name(model)}/canary-watch.json"


def gathered_key(model: str) -> str:
    """Return where validation keeps what it has gathered while a scorer's pod runs, out of that pod's reach."""
    return f"records/{validate_model_name(model)}/gathered.json"


def is_source_file(name: str) -> bool:
    """Return whether an object under incoming/MODEL/VERSION/ is part of what training made.

    Not part of it are ready.json, hidden files, compiled Python and the markers that stand for folders.
    """
    return is_model_file(name) and ".." not in name.split("/") and name != READY_FILE


def staged_name(model: str, role: Role) -> str:
    """Return what a model is called on the staging server.

    The stable version stands beside the candidate under its own name, and so do a trial of `model_tuning`, the
    setting that it is compared with, and what `model_benchmark` measures; the underscore keeps them apart from every
    real model, whose names have none.
    """
    return f"{validate_model_name(model)}{_STAGED_AS[role]}"


def staged_model(model: str, repository_model: str, staged: str) -> str:
    """Return what a model of a version's repository is called on staging.

    `staged` is the `staged_name` of `model`, the one that clients address. Members carry it before their own
    name, so that the members of two ensembles, or of two versions of one, never meet: no other model's name
    has an underscore before its members' part.
    """
    return staged if repository_model == model else f"{staged}{MEMBER_MARK}{repository_model}"


def staged_key(repository_file: str, staged: str, model: str | None = None) -> str:
    """Return the staging key of a repository file, `MODEL/…`, of the version that is called `staged` there.

    `model` is the one that clients address, by default the file's own.
    """
    owner, separator, rest = repository_file.partition("/")
    if not separator or not rest or ".." in repository_file.split("/"):
        raise ValueError(f"{repository_file!r} is not a file inside a model repository")
    return f"staging/{staged_model(model or owner, owner, staged)}/{rest}"


def staged_prefixes(staged: str) -> tuple[str, str]:
    """Return the prefixes under which all that belongs to a version lies on staging: its own, its members'."""
    return f"staging/{staged}/", f"staging/{staged}{MEMBER_MARK}"


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
    found = published_version(uri)
    if found is None:
        raise ForeignChangeError(
            f"the InferenceService serves {uri!r}, which is not a published version",
            expected="s3://BUCKET/models/MODEL/VERSION/repository",
            found=uri,
            remedy="Put the InferenceService back to a published version, or release under another name.",
        )
    return found
