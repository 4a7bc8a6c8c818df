"""Names and labels by the rules of Kubernetes' API (apimachinery's `validation`)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LIMIT, _SUBDOMAIN_LIMIT = 63, 253
# Kubernetes keeps these for resources of its own.
_KUBERNETES = "kubernetes.io"
# Quotas put it before the name.
_OF_QUOTAS = "requests."


def is_subdomain(text: str) -> bool:
    """Return whether `text` is a DNS-1123 subdomain, as names of most objects are."""
    return len(text) <= _SUBDOMAIN_LIMIT and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Return whether `text` is a qualified name: `name` or `prefix/name`, as keys of labels and taints are."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= _NAME_LIMIT and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Return whether `text` can be the value of a label or taint; it may be empty."""
    return text == "" or (len(text) <= _NAME_LIMIT and _NAME.fullmatch(text) is not None)


def _label_key(text: str) -> str:
    if not is_qualified_name(text):
        raise ValueError(
            "must be a key such as accelerator or nvidia.com/gpu: an optional DNS prefix and `/`, then at most 63 "
            "letters, digits, `-`, `_` and `.`, the first and last a letter or digit"
        )
    return text


def _label_value(text: str) -> str:
    if not is_label_value(text):
        raise ValueError(
            "must be a label's value: at most 63 letters, digits, `-`, `_` and `.`, the first and last a letter or "
            'digit; write numbers and true in quotes, such as "true"'
        )
    return text


def _object_name(text: str) -> str:
    if not is_subdomain(text):
        raise ValueError(
            "must be the name of an object in the cluster: lower-case letters, digits, inner hyphens and dots, at "
            "most 253 characters"
        )
    return text


def _extended_resource(text: str) -> str:
    prefix, slash, _ = text.rpartition("/")
    taken = prefix == _KUBERNETES or prefix.endswith(f".{_KUBERNETES}") or text.startswith(_OF_QUOTAS)
    # A quota of it would be `requests.NAME`, which must be a key too.
    if not slash or taken or not is_qualified_name(f"{_OF_QUOTAS}{text}"):
        raise ValueError(
            "must be the name of a resource that a device plugin offers, with its domain, such as nvidia.com/gpu, "
            "nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb"
        )
    return text


LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
ObjectName = Annotated[str, AfterValidator(_object_name)]
ExtendedResource = Annotated[str, AfterValidator(_extended_resource)]
