"""Reads a published version again and says what differs from its manifest.

    python -m slipway.registry MODEL VERSION [--bucket NAME]

It runs where Airflow is configured (`PYTHONPATH=plugins:include`): bucket and credentials are Airflow's. Exit codes: 0
the version is what was published; 1 it is not, each difference on a line; 2 that is unknown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow.sdk import Variable

from slipway.deployment.settings import text_of
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.signing import SigningKey, signing_key_of
from slipway.registry.verification import verify_version
from slipway_core.errors import SlipwayError, UnknownModelError
from slipway_core.identifiers import parse_version
from slipway_core.spec.release_file import load_model_spec

BUCKET_VARIABLE = "slipway_bucket"
_RELEASES = Path(__file__).parents[3] / "include" / "releases"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m slipway.registry",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model")
    parser.add_argument("version")
    parser.add_argument("--bucket", help=f"default: the Airflow variable {BUCKET_VARIABLE}")
    parser.add_argument("--aws-conn-id", default="aws_default", help="default: %(default)s")
    parser.add_argument(
        "--releases",
        type=Path,
        default=Path(text_of("SLIPWAY_RELEASES_DIR") or _RELEASES),
        help="folder of the release files; the model's file says which signature is required (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    try:
        version = parse_version(options.version)
        store = ModelStoreHook(options.bucket or Variable.get(BUCKET_VARIABLE), options.aws_conn_id)
        key = _key(options.releases, options.model)
        findings = verify_version(store, options.model, version, key)
    except SlipwayError as error:
        print(error, file=sys.stderr)
        return 2
    for finding in findings:
        print(finding)
    if not findings:
        signed = "signed as required" if key is not None else "signature not checked (no key)"
        print(f"{options.model} version {version} is unchanged since it was published; {signed}")
    return 1 if findings else 0


def _key(releases: Path, model: str) -> SigningKey | None:
    """Return the key that the model's release file names; none where the model has no release file any more."""
    try:
        spec = load_model_spec(releases, model)
    except UnknownModelError:
        return None
    return signing_key_of(spec)


if __name__ == "__main__":
    sys.exit(main())
