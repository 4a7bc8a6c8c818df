"""What a model's configuration means, whichever way a server or a DAG writes it: as Triton's own message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

_SHOWN = 120
# Lists of numbers or names whose order means nothing to Triton. All others are compared in their order.
_SETS = frozenset({"versions", "preferred_batch_size", "gpus", "profile"})


def departures(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> list[str]:
    """Say in words where a server's configuration is not what was asked for; an empty list when it is.

    Numbers that are written as text and fields at their defaults do not matter. What the server has filled in beyond
    `wanted` is no departure. A field that this client does not know is compared as it is written, at the top level
    alone.

    :param wanted: a whole configuration in Triton's JSON form.
    """
    try:
        asked, used = _message(wanted), _message(served)
    except ValueError as error:
        return [f"one of them is unreadable: {error}"]
    known = {name for field in asked.DESCRIPTOR.fields for name in (field.name, field.json_name)}
    found = [
        f"{name} is {_shown(served.get(name))} instead of {_shown(value)}"
        for name, value in wanted.items()
        if name not in known and value != served.get(name)
    ]
    return [*_of_message(asked, used, ""), *found]


def config_sha256(config: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of a configuration: the same however it is written, over HTTP or over gRPC.

    :raises ValueError: it is no configuration.
    """
    from google.protobuf.json_format import MessageToDict

    text = json.dumps(MessageToDict(_message(config)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _message(config: Mapping[str, Any]) -> Any:
    # Imported only here: every parse of a DAG would pay for gRPC.
    from google.protobuf.json_format import ParseDict, ParseError
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:
        return ParseDict(dict(config), ModelConfig(), ignore_unknown_fields=True)
    except ParseError as error:
        raise ValueError(str(error)) from error


def _of_message(wanted: Any, served: Any, place: str) -> Iterator[str]:
    for field, value in wanted.ListFields():
        spot = f"{place}.{field.name}" if place else field.name
        if field.has_presence and not served.HasField(field.name):
            yield _instead(spot, None, value)
            continue
        there = getattr(served, field.name)
        if isinstance(value, MutableMapping):
            for key in value:
                yield from _of_value(value[key], there.get(key), f"{spot}.{key}")
        elif not isinstance(value, MutableSequence):
            yield from _of_value(value, there, spot)
        elif len(value) != len(there):
            yield f"{spot} has {len(there)} entries instead of {len(value)}"
        else:
            lists = (sorted(value), sorted(there)) if field.name in _SETS else (value, there)
            for index, (one, other) in enumerate(zip(*lists, strict=True)):
                yield from _of_value(one, other, f"{spot}[{index}]")


def _of_value(wanted: Any, served: Any, spot: str) -> Iterator[str]:
    if served is not None and hasattr(wanted, "ListFields"):
        yield from _of_message(wanted, served, spot)
    elif wanted != served:
        yield _instead(spot, served, wanted)


def _instead(spot: str, served: Any, wanted: Any) -> str:
    return f"{spot} is {_shown(served)} instead of {_shown(wanted)}"


def _shown(value: Any) -> str:
    from google.protobuf.json_format import MessageToDict

    plain = MessageToDict(value, preserving_proto_field_name=True) if hasattr(value, "ListFields") else value
    text = json.dumps(plain, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
