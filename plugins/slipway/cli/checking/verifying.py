"""A published version read again, by the checker that releases use."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.cli.failures import CommandError, ExitCode
from slipway_core.errors import UnknownModelError

if TYPE_CHECKING:
    from slipway.cli.invocation import Invocation
    from slipway.hooks.s3_store import ModelStoreHook
    from slipway.registry.signing import SigningKey
    from slipway.registry.verification import FileDifference

_ERRORS_ONLY = 40
_AWS_NAMES = {
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region": "AWS_DEFAULT_REGION",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
}


@dataclass(frozen=True)
class Verified:
    """What differs; nothing: it is what was published. `is_signed` says that a signature was demanded and is good."""

    model: str
    version: int
    findings: Sequence[FileDifference]
    is_signed: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON has."""
        findings = [{"key": one.key, "expected": one.expected, "found": one.found} for one in self.findings]
        return {
            "model": self.model,
            "version": self.version,
            "is_signed": self.is_signed,
            "findings": findings,
        }

    def lines(self) -> list[str]:
        """Return it in lines."""
        if self.findings:
            return [str(one) for one in self.findings]
        signed = "signed as required" if self.is_signed else "signature not checked (no key)"
        return [f"{self.model} version {self.version} is unchanged since it was published; {signed}"]


def verify_published(
    invocation: Invocation, model: str, version: int, bucket: str, releases: Path
) -> Verified:
    """Read a version and compare it with its manifest.

    :param bucket: "": that of the settings, or of the variable SLIPWAY_BUCKET.
    """
    with opened_bucket(invocation, bucket, f"verify {model} {version}") as store:
        from slipway.registry.verification import verify_version

        key = _key(model, releases)
        findings = verify_version(store, model, version, key)
    return Verified(model, version, findings, key is not None and not findings)


@contextmanager
def opened_bucket(invocation: Invocation, bucket: str, asked: str) -> Iterator[ModelStoreHook]:
    """Yield the hook on a bucket, with the sandbox's credentials or those that boto3 finds.

    :param bucket: "": that of the settings, or of the variable SLIPWAY_BUCKET.
    :param asked: the command with its arguments, for errors.
    """
    settings = _store_settings(invocation)
    name = bucket or os.environ.get("SLIPWAY_BUCKET") or settings.get("bucket", "")
    if not name:
        raise CommandError(
            "no bucket is named",
            code=ExitCode.USAGE,
            expected="--bucket, or the variable SLIPWAY_BUCKET",
            found="neither",
            remedy=f"slipway {asked} --bucket NAME",
        )
    os.environ.update({_AWS_NAMES[key]: value for key, value in settings.items() if key in _AWS_NAMES})
    with tempfile.TemporaryDirectory(prefix="slipway-") as home:
        # The hook is one of Airflow's; without this, importing it would write to a home of Airflow's.
        os.environ.setdefault("AIRFLOW_HOME", home)
        yield _hook(name, asked)


def _store_settings(invocation: Invocation) -> Mapping[str, str]:
    """Return the sandbox's store; without any settings boto3's own hold."""
    try:
        return invocation.settings.store
    except CommandError:
        return {}


def _hook(bucket: str, asked: str) -> ModelStoreHook:
    try:
        import structlog

        from slipway.hooks.s3_store import ModelStoreHook
    except ImportError as error:
        command = asked.partition(" ")[0]
        raise CommandError(
            f"{command} needs Airflow's libraries, which are not installed here",
            code=ExitCode.USAGE,
            expected="the environment from requirements.txt",
            found=str(error),
            remedy=f"run it in the project's environment: .venv/bin/slipway {command} …",
        ) from None
    # What Airflow's hooks report credentials is for a task's log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_ERRORS_ONLY))
    logging.getLogger("botocore").setLevel(logging.ERROR)
    # No connection of Airflow's: boto3 finds its credentials.
    return ModelStoreHook(bucket, "")


def _key(model: str, releases: Path) -> SigningKey | None:
    from slipway.registry.signing import signing_key_of
    from slipway_core.spec.release_file import load_model_spec

    try:
        return signing_key_of(load_model_spec(releases, model))
    except UnknownModelError:
        return None
