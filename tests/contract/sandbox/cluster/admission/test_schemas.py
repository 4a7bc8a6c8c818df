"""The emulator's schemas beside the official client's models: the same field names."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import models

from slipway_sandbox.cluster.admission import schemas
from slipway_sandbox.cluster.admission.structure import Record


@pytest.mark.parametrize(
    ("schema", "model"),
    [
        (schemas.POD_SPEC, models.V1PodSpec),
        (schemas.CONTAINER, models.V1Container),
        (schemas.METADATA, models.V1ObjectMeta),
        (schemas.TOLERATION, models.V1Toleration),
        (schemas.RESOURCE_REQUIREMENTS, models.V1ResourceRequirements),
        (schemas.EVENT, models.CoreV1Event),
        (schemas.CONFIG_MAP, models.V1ConfigMap),
        (schemas.LEASE, models.V1Lease),
        (schemas.LEASE_SPEC, models.V1LeaseSpec),
    ],
)
def test_field_names_are_those_of_the_official_models(schema: Record, model: Any) -> None:
    """Every field that the official model has is known here, and no other: a valid one is never dropped."""
    assert set(schema.fields) == set(model.attribute_map.values())
