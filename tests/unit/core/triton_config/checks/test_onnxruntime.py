"""Tensors of a configuration are held against the model's as the ONNX Runtime backend does at load."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.spec.serving.serving import Serving
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.build import build_model_config
from slipway_core.triton_config.checks.contradictions import contradictions


def _tensor(name: str, *shape: int, datatype: Any = "FP32") -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def _entry(name: str, *dims: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "data_type": "TYPE_FP32", "dims": list(dims), **more}


def _config(
    inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], size: int, **more: Any
) -> dict[str, Any]:
    return {
        "name": "m",
        "backend": "onnxruntime",
        "platform": "onnxruntime_onnx",
        "max_batch_size": size,
        "input": inputs,
        "output": outputs,
        **more,
    }


def _found(
    config: dict[str, Any], inputs: list[TensorSpec], outputs: list[TensorSpec], **more: Any
) -> list[str]:
    signature = ModelSignature(inputs=tuple(inputs), outputs=tuple(outputs))
    return [one.field for one in contradictions(config, signature=signature, **more)]


@pytest.mark.parametrize(
    ("size", "dims", "model", "fits"),
    [
        (8, [64], (-1, 64), True),
        (8, [-1], (-1, 64), False),
        (8, [64], (-1, -1), True),
        (8, [-1], (-1, -1), True),
        (8, [63], (-1, 64), False),
        (8, [64, 1], (-1, 64), False),
        (8, [64], (1, 64), False),
        (8, [64], (8, 64), False),
        (0, [1, 64], (1, 64), True),
        (0, [-1, 64], (1, 64), False),
        (0, [3, 64], (-1, 64), True),
        (0, [1], (), True),
        (0, [2], (), False),
    ],
)
def test_an_input_is_the_models_wherever_the_model_fixes_it(
    size: int, dims: list[int], model: tuple[int, ...], fits: bool
) -> None:
    """`-1` for a size that the model fixes is refused by the real backend, a number for a free one is taken."""
    config = _config([_entry("x", *dims)], [_entry("y", -1)], size)
    batch = (-1,) if size else ()
    found = _found(config, [_tensor("x", *model)], [_tensor("y", *batch, -1)])
    assert found == ([] if fits else ["input[0].dims"])


@pytest.mark.parametrize(
    ("size", "dims", "model", "fits"),
    [
        (8, [10], (-1, 10), True),
        (8, [10], (-1, -1), False),
        (8, [-1], (-1, 10), False),
        (8, [-1], (-1, -1), True),
        (8, [10], (1, 10), False),
        (0, [1, 10], (1, 10), True),
        (0, [10], (-1, 10), False),
    ],
)
def test_an_output_is_exactly_the_models(
    size: int, dims: list[int], model: tuple[int, ...], fits: bool
) -> None:
    """A size that the model leaves open is -1 in the configuration too."""
    config = _config([_entry("x", -1)], [_entry("y", *dims)], size)
    batch = (-1,) if size else ()
    found = _found(config, [_tensor("x", *batch, -1)], [_tensor("y", *model)])
    assert found == ([] if fits else ["output[0].dims"])


def test_another_backend_compares_less_strictly() -> None:
    """The rule is ONNX Runtime's own: an engine's profile says what it takes."""
    config = {
        **_config([_entry("x", -1)], [_entry("y", 2)], 8),
        "backend": "tensorrt",
        "platform": "tensorrt_plan",
    }
    assert _found(config, [_tensor("x", -1, 64)], [_tensor("y", -1, -1)]) == []


def test_a_ragged_batch_is_handed_over_flat_beside_what_triton_makes_of_it() -> None:
    """`batch_input` feeds an input of the model: no client brings it, and it is no missing input."""
    model = [_tensor("x", -1), _tensor("n", -1)]
    made = [
        {"kind": "BATCH_ELEMENT_COUNT", "target_name": ["n"], "data_type": "TYPE_FP32", "source_input": ["x"]}
    ]
    config = _config([_entry("x", -1, allow_ragged_batch=True)], [_entry("y", 10)], 16, batch_input=made)
    outputs = [_tensor("y", -1, 10)]
    assert _found(config, model, outputs) == []
    assert _found(config, [_tensor("x", -1, 64), _tensor("n", -1)], outputs) == [
        "input[0].allow_ragged_batch"
    ]
    assert _found(config, model[:1], outputs) == ["batch_input: n"]
    assert _found({**config, "batch_input": []}, model, outputs) == ["input"]


def test_a_scattered_output_has_a_shape_of_its_own() -> None:
    """What `batch_output` shares out by an input's shape is not compared with the model's."""
    scattered = [{"target_name": ["y"], "source_input": ["x"]}]
    config = _config([_entry("x", -1)], [_entry("y", -1)], 16, batch_output=scattered)
    assert _found(config, [_tensor("x", -1, -1)], [_tensor("y", -1)]) == []
    assert _found({**config, "batch_output": []}, [_tensor("x", -1, -1)], [_tensor("y", -1)]) == [
        "output[0].dims"
    ]


def test_an_optional_input_is_one_that_the_model_has_a_value_for() -> None:
    """An overridable initializer may be offered to clients, as optional and without batches; it need not be."""
    inputs, outputs, own = [_tensor("x", -1, 4)], [_tensor("y", -1, 2)], [_tensor("t", 1)]
    optional = _config([_entry("x", -1, 4), _entry("t", 1, optional=True)], [_entry("y", -1, 2)], 0)
    assert _found(optional, inputs, outputs, overridable=own) == []
    assert (
        _found(_config([_entry("x", -1, 4)], [_entry("y", -1, 2)], 0), inputs, outputs, overridable=own) == []
    )
    needed = _config([_entry("x", -1, 4), _entry("t", 1)], [_entry("y", -1, 2)], 0)
    assert _found(needed, inputs, outputs, overridable=own) == ["input[1].optional"]
    without_value = _config([_entry("x", -1, 4, optional=True)], [_entry("y", -1, 2)], 0)
    assert _found(without_value, inputs, outputs) == ["input[0].optional"]
    with_batches = _config([_entry("x", 4), _entry("t", optional=True)], [_entry("y", 2)], 8)
    assert "input[1].optional" in _found(with_batches, inputs, outputs, overridable=own)


def test_bf16_is_not_carried() -> None:
    """The backend knows no BF16 between client and model; the remedy is a Cast in the model."""
    config = _config([_entry("x", 4, data_type="TYPE_BF16")], [_entry("y", 2)], 8)
    found = contradictions(
        config,
        signature=ModelSignature(
            inputs=(_tensor("x", -1, 4, datatype="BF16"),), outputs=(_tensor("y", -1, 2),)
        ),
    )
    assert [one.field for one in found] == ["input[0].data_type"]
    assert "Cast" in found[0].remedy


def test_without_instances_a_model_that_is_tuned_for_a_gpu_runs_where_triton_puts_it() -> None:
    """`cuda.graphs` without `instance_group` is no contradiction: Triton decides, as it does without Slipway."""
    signature = ModelSignature(inputs=(_tensor("x", -1, 4),), outputs=(_tensor("y", -1, 2),))
    base: dict[str, Any] = {"platform": "onnxruntime_onnx", "optimization": {"cuda": {"graphs": True}}}
    built = build_model_config("m", Serving(), signature, 1, base={**base, "max_batch_size": 8})
    assert built["instance_group"] == [{"kind": "KIND_AUTO", "count": 1}]
    untuned = build_model_config("m", Serving(), signature, 1, base={**base, "optimization": {}})
    assert untuned["instance_group"] == [{"kind": "KIND_CPU", "count": 1}]


def test_an_open_size_of_an_output_is_published_as_the_models_own() -> None:
    """A server derives sizes that the file leaves open, and wants them in the configuration; an open one stays open."""
    base = _config([_entry("x", 4)], [_entry("y", -1)], 8)
    inputs = (_tensor("x", -1, 4),)
    fixed = ModelSignature(inputs=inputs, outputs=(_tensor("y", -1, 10),))
    assert build_model_config("m", Serving(), fixed, 1, base=base)["output"][0]["dims"] == [10]
    free = ModelSignature(inputs=inputs, outputs=(_tensor("y", -1, -1),))
    assert build_model_config("m", Serving(), free, 1, base=base)["output"][0]["dims"] == [-1]
