"""config.pbtxt: damaged texts, and sound ones that say strange things."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

from benchmarks.fuzz import mutate, pbtxt
from benchmarks.fuzz.target import Target
from slipway_core.spec.release_file import Serving
from slipway_core.tensors import ModelSignature
from slipway_core.triton_config.build import build_model_config, served_signature
from slipway_core.triton_config.canonical import canonical_config, config_sha256
from slipway_core.triton_config.checks.contradictions import contradictions
from slipway_core.triton_config.ensemble import (
    called_models,
    departures,
    load_order,
    members_file,
    pin_bundle,
    rename_bundle,
)
from slipway_core.triton_config.files import named_files
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt

_SIGNATURE = ModelSignature.model_validate(
    {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    }
)
_PROFILES = ({"min": {"x": [1, 4]}, "opt": {"x": [4, 4]}, "max": {"x": [8, 4]}},)


@cache
def _texts() -> tuple[bytes, ...]:
    return tuple(pbtxt.written(tree).encode() for tree in pbtxt.CONFIGS)


def _read(content: bytes) -> None:
    """All that a release does with a configuration that training, or a converter, has left."""
    config = from_pbtxt(content)
    assert config_sha256(from_pbtxt(to_pbtxt(config))) == config_sha256(config)
    canonical_config(config)
    named_files(config)
    contradictions(config, signature=_SIGNATURE, profiles=_PROFILES, version=3, files=["model.onnx"])
    departures(config, config)
    called_models(config, {"m": config})
    served_signature(config)
    built = build_model_config("m", Serving(), _SIGNATURE, 3, base=config, profiles=_PROFILES)
    configs = {"m": built, "part": pbtxt.PART}
    load_order(configs)
    pinned = pin_bundle(configs, 3)
    for renamed in rename_bundle(pinned, {"m": "staging-m", "part": "staging-m-part"}).values():
        to_pbtxt(renamed)
    members_file(configs, "m", 3)
    served_signature(built)


def _sound(rng: Random, _: Sequence[bytes]) -> bytes:
    return pbtxt.generated(rng).encode("utf-8", "surrogatepass")


TARGETS = (
    Target("config_pbtxt", lambda: list(_texts()), mutate.some_bytes, _read),
    Target("config_grammar", lambda: list(_texts()), _sound, _read),
)
