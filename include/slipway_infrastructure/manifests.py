"""The policies of include/manifests as parts of templates: their placeholders become what CloudFormation knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

from slipway_infrastructure.template import Json, sub

INCLUDE = Path(__file__).resolve().parents[1]
MANIFESTS = INCLUDE / "manifests"
IMAGES = INCLUDE / "images"
_MEANING = {
    "arn:aws:": "arn:${AWS::Partition}:",
    "BUCKET": "${BucketName}",
    "ACCOUNT": "${AWS::AccountId}",
    "REGION": "${AWS::Region}",
}
_PLACEHOLDER = re.compile(rf"{'|'.join(_MEANING)}")


def read(folder: str, name: str) -> Json:
    """Return a file of include/manifests as it is: `bucket/policy.json` is read("bucket", "policy").

    :raises OSError: there is no such file.
    :raises ValueError: it isn't JSON.
    """
    return cast("Json", json.loads((MANIFESTS / folder / f"{name}.json").read_text(encoding="utf-8")))


def rendered(value: Any) -> Any:
    """Return a document with Fn::Sub in place of each text that has a placeholder.

    A text without one stays as it is. Keys of objects have none.
    """
    if isinstance(value, dict):
        return {key: rendered(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rendered(one) for one in value]
    if isinstance(value, str) and _PLACEHOLDER.search(value):
        return sub(_PLACEHOLDER.sub(lambda found: _MEANING[found[0]], value))
    return value


def policy(folder: str, name: str) -> Json:
    """Return a policy of include/manifests, rendered."""
    return cast("Json", rendered(read(folder, name)))


def image_names() -> list[str]:
    """Return the names of the images that have a Dockerfile, in order."""
    return sorted(path.parent.name for path in IMAGES.glob("*/Dockerfile"))
