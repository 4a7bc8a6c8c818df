"""The golden set of a published version, as gates and the golden replay send it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from slipway.registry.registry import ModelRegistry
from slipway_core.gates.validation.golden_set import GoldenSet, golden_from_arrays
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.gates.validation.request_options import optional_inputs
from slipway_core.publishing.manifest import GOLDEN_FILE, Manifest
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.triton_config.ragged import is_asked_row_by_row

log = logging.getLogger(__name__)


def load_golden_set(
    registry: ModelRegistry, manifest: Manifest, spec: ReleaseSpec, config: Mapping[str, Any]
) -> GoldenSet:
    """Return the version's golden set, checked against its manifest and its model's signature.

    :param spec: names the column of the labels, the kind of answer, and which axis of an input counts the rows.
    :param config: the model's configuration, which says which inputs a request may leave out.
    :raises InputMissingError: the version has no golden set.
    :raises GoldenSetError: it cannot be read, or does not fit the model.
    :raises VersionConflictError: it is not the file that the manifest names.
    """
    validation = kind_of(spec.validation)
    golden = golden_from_arrays(
        read_arrays(registry.golden_set(manifest), GOLDEN_FILE),
        manifest.signature,
        validation.label,
        labelled=validation.labels,
        optional=optional_inputs(config),
        row_axis=spec.golden.row_axis,
        group=validation.grouped_by,
        slices=spec.golden.slices,
        row_by_row=is_asked_row_by_row(config),
    )
    log.info("%s golden rows of %s: %s", golden.rows, spec.model, golden.axes.describe())
    return golden
