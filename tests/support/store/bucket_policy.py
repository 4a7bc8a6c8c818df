"""The bucket's policy of include/manifests/bucket, evaluated for one request as S3 would.

A small evaluator of its own: moto evaluates neither `NotResource` nor conditions of a bucket policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "bucket"
POLICY = json.loads((FOLDER / "policy.json").read_text())

PUBLISHER, AIRFLOW, COLLECTOR = "slipway-publisher", "slipway-airflow", "slipway-collector"
PODS, PAGES = "slipway-pods", "slipway-pages"
SLIPWAYS = (PUBLISHER, AIRFLOW, COLLECTOR, PODS, PAGES)
OTHER = "training"
OTHERS = (OTHER, "slipway-models", "slipway-staging", "people")
"""Roles that the policy does not name: who uploads, inference servers, the staging Triton, whoever looks."""

_KNOWN_CONDITIONS = {"ArnLike", "ArnNotLike", "Null"}


def values(value: Any) -> list[Any]:
    """A policy writes one value, or a list of them."""
    return value if isinstance(value, list) else [value]


def matches(patterns: Any, text: str) -> bool:
    """Whether a text is like one of the patterns; `*` stands for slashes too, as in S3."""
    return any(fnmatchcase(text, pattern) for pattern in values(patterns))


def concerns(statement: Mapping[str, Any], element: str, text: str) -> bool:
    """Whether a statement's `Action` or `Resource`, or its `Not…`, holds for a request."""
    assert (element in statement) != (f"Not{element}" in statement), statement["Sid"]
    if element in statement:
        return matches(statement[element], text)
    return not matches(statement[f"Not{element}"], text)


def holds(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    """Whether all conditions of a statement hold for a request."""
    assert conditions.keys() <= _KNOWN_CONDITIONS
    likes = conditions.get("ArnLike", {}).items()
    unlikes = conditions.get("ArnNotLike", {}).items()
    nulls = conditions.get("Null", {}).items()
    return (
        all(key in context and matches(patterns, context[key]) for key, patterns in likes)
        and not any(key in context and matches(patterns, context[key]) for key, patterns in unlikes)
        and all((key not in context) == (wanted == "true") for key, wanted in nulls)
    )


def denied(role: str | None, action: str, key: str, *, if_none_match: bool = False) -> list[str]:
    """The statements that deny a request for an object; "" is the bucket itself.

    :param role: of the account; None: nobody has signed the request.
    """
    context = {} if role is None else {"aws:PrincipalArn": f"arn:aws:iam::ACCOUNT:role/{role}"}
    if if_none_match:
        context["s3:if-none-match"] = "*"
    resource = f"arn:aws:s3:::BUCKET/{key}" if key else "arn:aws:s3:::BUCKET"
    return [
        one["Sid"]
        for one in POLICY["Statement"]
        if concerns(one, "Action", action)
        and concerns(one, "Resource", resource)
        and holds(one.get("Condition", {}), context)
    ]
