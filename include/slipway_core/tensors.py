"""What goes into a model and what comes out: names, datatypes and shapes, in Triton's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slipway_core.errors import ModelInvalidError

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "BYTES", "BF16",
]  # fmt: skip
DATATYPES: tuple[str, ...] = get_args(Datatype)


class TensorSpec(BaseModel):
    """One input or output; `shape` has -1 where the size may vary, and the batch dimension if there is one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    datatype: Datatype
    shape: tuple[Annotated[int, Field(ge=-1)], ...]

    def __str__(self) -> str:
        return f"{self.datatype}[{', '.join(str(size) for size in self.shape)}]"


class ModelSignature(BaseModel):
    """All inputs and outputs of a model, ordered by name: clients address them by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @model_validator(mode="after")
    def _order_and_check(self) -> Self:
        for kind in ("inputs", "outputs"):
            tensors = sorted(getattr(self, kind), key=lambda tensor: tensor.name)
            names = [tensor.name for tensor in tensors]
            if len(set(names)) != len(names):
                raise ValueError(f"two {kind} have the same name: {names}")
            self.__dict__[kind] = tuple(tensors)
        return self

    def input(self, name: str) -> TensorSpec | None:
        """Return the input of that name, or None."""
        return next((tensor for tensor in self.inputs if tensor.name == name), None)

    def output(self, name: str) -> TensorSpec | None:
        """Return the output of that name, or None."""
        return next((tensor for tensor in self.outputs if tensor.name == name), None)


def signature_from_metadata(metadata: Mapping[str, Any]) -> ModelSignature:
    """Read the signature out of a server's model metadata (`GET /v2/models/M`, or the gRPC answer as JSON).

    Sizes may be numbers or, as in protobuf's JSON, decimal text. Raises ModelInvalidError when it is no
    such metadata.
    """
    name = metadata.get("name") or "the model"
    try:
        return ModelSignature(
            inputs=tuple(_tensor(tensor) for tensor in _sequence(metadata.get("inputs", ()))),
            outputs=tuple(_tensor(tensor) for tensor in _sequence(metadata.get("outputs", ()))),
        )
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelInvalidError(
            f"the server's metadata of {name} cannot be read",
            expected="`inputs` and `outputs`, each with name, datatype and shape",
            found=str(error).replace("\n", " ")[:300],
            remedy="Check that the address is that of an inference server with the KServe v2 protocol.",
        ) from error


def differences(stable: ModelSignature, candidate: ModelSignature) -> list[str]:
    """Say in words what is different in `candidate`; an empty list when clients cannot tell the two apart."""
    return [
        *_tensor_differences("input", stable.inputs, candidate.inputs),
        *_tensor_differences("output", stable.outputs, candidate.outputs),
    ]


def _tensor_differences(
    kind: str, stable: Sequence[TensorSpec], candidate: Sequence[TensorSpec]
) -> list[str]:
    before = {tensor.name: tensor for tensor in stable}
    after = {tensor.name: tensor for tensor in candidate}
    found = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if new is None:
            found.append(f"{kind} `{name}` ({old}) is gone")
        elif old is None:
            found.append(f"{kind} `{name}` ({new}) is new")
        elif old != new:
            found.append(f"{kind} `{name}` was {old} and is {new}")
    return found


def _tensor(value: Mapping[str, Any]) -> TensorSpec:
    shape = tuple(_size(size) for size in _sequence(value["shape"]))
    return TensorSpec(name=value["name"], datatype=value["datatype"], shape=shape)


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"{value!r} is not a size")
    return int(value)


def _sequence(value: object) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise TypeError(f"{value!r} is not a list")
