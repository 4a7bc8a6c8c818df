"""Whose an object is that KServe has made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def owner(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference to the InferenceService that an object of KServe's goes with."""
    metadata = service["metadata"]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
