"""Can this model be asked its golden set at all? Looked at before anything runs, by what has landed alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slipway_core.errors import GoldenSetError
from slipway_core.gates.validation.golden_labels import Array
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.kind import kind_of
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.tensors import ModelSignature
from slipway_rules.row_axes import RowAxis, rows_along


def require_askable(
    spec: ReleaseSpec,
    arrays: Mapping[str, Array],
    signature: ModelSignature | None = None,
    optional: Collection[str] = (),
    *,
    row_by_row: bool = False,
) -> str:
    """Return in words how each input's rows are taken; without a signature, an empty text.

    :param arrays: the golden set's.
    :param signature: what the model takes, where it is known already.
    :param optional: inputs that a request may leave out.
    :param row_by_row: each row is a request, whatever the shapes say.
    :raises GoldenSetError: it cannot be asked; the reason is named.
    """
    validation = kind_of(spec.validation)
    group = validation.grouped_by
    if signature is not None:
        golden = golden_from_arrays(
            arrays,
            signature,
            validation.label,
            labelled=validation.labels,
            optional=optional,
            row_axis=spec.golden.row_axis,
            group=group,
            slices=spec.golden.slices,
            row_by_row=row_by_row,
        )
        return golden.axes.describe()
    problems = [*_label_problems(spec, arrays), *_row_problems(spec, arrays)]
    if group and group not in arrays:
        problems.append(f"`{group}`, which `validation.group` names, is missing")
    problems += [
        f"`{name}`, which `golden.slices` names, is missing"
        for name in spec.golden.slices
        if name not in arrays
    ]
    if not arrays.keys() - {validation.label, group, *spec.golden.slices}:
        problems.append("an input has no array")
    if problems:
        raise GoldenSetError(
            f"the golden set of {spec.model} does not fit its release file",
            expected=f"an array for each input, and `{validation.label}`: {validation.labels.in_words()}",
            found="; ".join(problems),
            remedy="Write the golden set again, or correct `validation` or `golden.row_axis` in the release file.",
        )
    return ""


def _label_problems(spec: ReleaseSpec, arrays: Mapping[str, Array]) -> list[str]:
    validation = kind_of(spec.validation)
    labels = arrays.get(validation.label)
    if labels is not None:
        return validation.labels.problems(validation.label, labels)
    is_said = "label" in validation.model_fields_set
    if validation.labels.optional and not is_said:
        return []
    return [f"`{validation.label}` is missing"]


def _row_problems(spec: ReleaseSpec, arrays: Mapping[str, Array]) -> list[str]:
    """Return where an axis that the release file names counts other rows than the labels."""
    labels = arrays.get(spec.validation.label)
    said = {name: axis for name, axis in spec.golden.row_axis.items() if name in arrays}
    problems = [
        f"`{name}` has shape {list(arrays[name].shape)} and no axis {axis}"
        for name, axis in said.items()
        if not _has_axis(arrays[name], axis)
    ]
    if labels is None or not labels.ndim:
        return problems
    for name, axis in said.items():
        rows = rows_along(arrays[name].shape, axis) if _has_axis(arrays[name], axis) else None
        if rows is not None and rows != labels.shape[0]:
            problems.append(
                f"`{name}` has {rows} rows on `golden.row_axis: {axis}`, the labels {labels.shape[0]}"
            )
    return problems


def _has_axis(values: Array, axis: RowAxis) -> bool:
    return axis == "none" or values.ndim > (0 if axis == "request" else axis)
