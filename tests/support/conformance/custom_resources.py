"""Custom resources of other projects, made known to the API as their modules describe them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import requests

from tests.support.conformance.api import Api, Object, RefusedError, documents
from tests.support.waiting import wait_until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LIMIT_S = 120.0


def install_custom_resources(api: Api, *files: Path) -> None:
    """Create every CustomResourceDefinition of the files, and wait until each is served.

    They are created, not applied: to merge two megabytes of schema takes the server several times as long.
    """
    definitions = [one for one in documents(*files) if one.get("kind") == "CustomResourceDefinition"]
    for one in definitions:
        # Conversion would ask a webhook that only a certificate manager completes. One version needs none.
        one["spec"].pop("conversion", None)
        one.pop("status", None)
        answer = api.ask("POST", _DEFINITIONS, one)
        if answer.is_refusal and answer.code != requests.codes.conflict:
            raise RefusedError(f"{one['metadata']['name']}: {answer.code} {str(answer.body)[:1500]}")
    waiting = {path for one in definitions for path in _collections(one)}

    def all_served() -> bool:
        # A 404 until the API has taken it up.
        waiting.difference_update({path for path in waiting if not api.ask("GET", path).is_refusal})
        return not waiting

    wait_until(all_served, "every custom resource is served", _LIMIT_S)


def _collections(definition: Object) -> Iterable[str]:
    spec = definition["spec"]
    for version in spec["versions"]:
        if version["served"]:
            yield f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}?limit=1"
