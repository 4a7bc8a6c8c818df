"""What an ONNX file needs of the server that loads it, read without running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slipway.cli.plain import plain
from slipway_core.errors import InputMissingError, ModelInvalidError
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.written_numbers import counted
from slipway_rules.onnx_models import (
    MAX_DATA_FILES,
    PORTABLE_LOCALE,
    WEIGHTS_LIMIT_BYTES,
    has_own_rules,
    normalizers,
    special_locale,
)
from slipway_rules.text_forms import is_plain_path

# Shapes are inferred on a copy in memory.
_INFERENCE_LIMIT_BYTES = 300_000_000


def require_servable(path: Path) -> None:
    """Raise where no server could load the model, or its weights are not beside it.

    :raises ModelInvalidError: weights in files elsewhere or too large, a text operator with a locale of its own.
    :raises InputMissingError: a file with weights is not beside the model.
    """
    try:
        import onnx

        model = onnx.load(path, load_external_data=False)
    except Exception:  # it is said by whoever reads the signature, a library that is not there too
        return
    _require_data(path, model)
    _require_portable_locales(path, model)


def require_portable_text(path: Path) -> None:
    """Raise where the model of an ensemble's member has a text operator with a locale of its own.

    :raises ModelInvalidError: it has.
    """
    try:
        import onnx

        model = onnx.load(path, load_external_data=False)
    except Exception:  # the server that loads it refuses what is no model
        return
    _require_portable_locales(path, model)


def _require_portable_locales(path: Path, model: Any) -> None:
    for node in normalizers(model):
        _require_portable_locale(path, node)


def converted_signature(
    path: Path, signature: ModelSignature, *, widens_single_numbers: bool
) -> tuple[ModelSignature | None, tuple[TensorSpec, ...]]:
    """Return what the converted model takes and answers, and its initializers that a request may replace.

    The signature is None where the file does not state how many dimensions an output has.

    :param signature: as the file states it.
    :param widens_single_numbers: a tensor without any size is served with the size [1].
    """
    import onnx

    scalar = (1,) if widens_single_numbers else ()
    model = onnx.load(path, load_external_data=False)
    if path.stat().st_size <= _INFERENCE_LIMIT_BYTES:
        model = _inferred(model)
    stated = {value.name: value for value in (*model.graph.input, *model.graph.output)}
    if any(not stated[one.name].type.tensor_type.HasField("shape") for one in signature.outputs):
        return None, ()
    weights = {tensor.name for tensor in model.graph.initializer}
    # Before version 4 of the format every initializer had to be an input, and none could be replaced.
    own = [one for one in model.graph.input if one.name in weights] if model.ir_version >= 4 else []
    return (
        ModelSignature(
            inputs=tuple(_spec(one, stated[one.name], scalar) for one in signature.inputs),
            outputs=tuple(_spec(one, stated[one.name], scalar) for one in signature.outputs),
        ),
        tuple(_spec(None, one, scalar) for one in own),
    )


def _inferred(model: Any) -> Any:
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # the sizes stay as the file states them
        return model


def _spec(read: TensorSpec | None, value: Any, scalar: tuple[int, ...]) -> TensorSpec:
    """Return a tensor with its sizes as they are served; one without any has those of `scalar`."""
    from onnx import TensorProto

    tensor = value.type.tensor_type
    sizes = tuple(
        int(one.dim_value) if one.HasField("dim_value") and one.dim_value >= 0 else -1
        for one in tensor.shape.dim
    )
    if read is None:
        named = {"FLOAT": "FP32", "FLOAT16": "FP16", "BFLOAT16": "BF16", "DOUBLE": "FP64", "STRING": "BYTES"}
        kind = TensorProto.DataType.Name(tensor.elem_type)
        read = TensorSpec.model_validate({"name": value.name, "datatype": named.get(kind, kind), "shape": ()})
    return read.model_copy(update={"shape": sizes or scalar})


def _require_data(path: Path, model: Any) -> None:
    located: dict[str, None] = {}
    for tensor in _tensors(model):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        located[entries.get("location", "")] = None
    strange = [one for one in located if not is_plain_path(one) or one == path.name]
    if strange or len(located) > MAX_DATA_FILES:
        raise ModelInvalidError(
            f"{path} keeps weights in files that cannot be uploaded",
            expected=f"at most {MAX_DATA_FILES} files in the model's folder, under plain names",
            found=", ".join(repr(plain(one)[:100]) for one in strange[:5]) or counted(len(located), "file"),
            remedy="Save it again with onnx.save_model(…, save_as_external_data=True, location='model.onnx.data').",
        )
    missing = [one for one in located if not (path.parent / one).is_file()]
    if missing:
        raise InputMissingError(
            f"{path} keeps weights in a file that is missing from its folder",
            expected=str(path.parent / missing[0]),
            found="no such file",
            remedy="Put the file there, and upload both to the same folder in incoming/.",
        )
    total = sum((path.parent / one).stat().st_size for one in located)
    if total > WEIGHTS_LIMIT_BYTES:
        raise ModelInvalidError(
            f"{path} is too large to serve as one ONNX file",
            expected=f"at most {WEIGHTS_LIMIT_BYTES} bytes of weights",
            found=f"{total} bytes",
            remedy="Export it in half precision, or release it as a model of Triton's Python backend "
            "(`conversion.target: python`), which accepts a folder.",
        )


def _tensors(model: Any) -> Iterator[Any]:
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    return (tensor for tensor in _get_all_tensors(model) if uses_external_data(tensor))


def _require_portable_locale(path: Path, node: Any) -> None:
    locale = special_locale(node)
    if locale is not None and has_own_rules(locale):
        named = plain(node.name or node.output[0])
        raise ModelInvalidError(
            f"{path}: the StringNormalizer {named!r} needs a locale that servers do not have",
            expected=f"a locale with Unicode's rules for upper and lower case, such as {PORTABLE_LOCALE}",
            found=plain(locale)[:50],
            remedy=f"Export it with locale={PORTABLE_LOCALE!r}, or change the case before the text is sent.",
        )
