"""An engine is loaded only where it was built for."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import LoadRefusedError, ModelInvalidError
from slipway_core.publishing.engine import EngineBuild, differences, engine_of, require_loadable
from slipway_core.spec.serving.serving import ServerHardware

_L4 = {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.13.2.6"}


def _engine(**changes: Any) -> EngineBuild:
    return EngineBuild.model_validate({**_L4, **changes})


def _server(**changes: Any) -> ServerHardware:
    return ServerHardware.model_validate({"compute_capability": "8.9", "tensorrt": "10.13.2", **changes})


@pytest.mark.parametrize(
    ("engine", "server"),
    [
        ({}, {}),
        ({}, {"tensorrt": "10.13.2.6"}),
        ({}, {"gpu": "NVIDIA L4"}),
        ({"hardware_compatibility": "ampere_plus"}, {"compute_capability": "9.0"}),
        ({"hardware_compatibility": "same_compute_capability"}, {"gpu": "NVIDIA L40S"}),
        ({"version_compatible": True}, {"tensorrt": "10.14.0"}),
        ({"version_compatible": True}, {"tensorrt": "10.13.2"}),
    ],
)
def test_what_fits_is_loaded(engine: dict[str, Any], server: dict[str, Any]) -> None:
    """The same GPU and TensorRT, or an engine that was built to be compatible."""
    assert differences(_engine(**engine), _server(**server)) == []
    require_loadable([_engine(**engine)], _server(**server), where="staging")


@pytest.mark.parametrize(
    ("engine", "server", "word"),
    [
        ({}, {"compute_capability": "9.0"}, "compute capability 8.9"),
        ({}, {"tensorrt": "10.13.3"}, "TensorRT 10.13.2.6"),
        ({}, {"tensorrt": "10.13.2.5"}, "TensorRT 10.13.2.6"),
        ({}, {"gpu": "NVIDIA L40S"}, "built on NVIDIA L4"),
        ({"hardware_compatibility": "ampere_plus"}, {"compute_capability": "7.5"}, "compute capability"),
        ({"version_compatible": True}, {"tensorrt": "10.12.0"}, "TensorRT"),
        ({"version_compatible": True}, {"tensorrt": "11.0.0"}, "TensorRT"),
    ],
)
def test_what_does_not_fit_is_refused(engine: dict[str, Any], server: dict[str, Any], word: str) -> None:
    """Another GPU, another TensorRT: refused before the load, with both sides named."""
    with pytest.raises(LoadRefusedError, match=word) as refused:
        require_loadable([_engine(**engine)], _server(**server), where="staging")
    assert "staging" in refused.value.what


def test_a_server_that_nobody_described_is_refused() -> None:
    """Triton does not tell its GPU, so without a declaration an engine is not loaded; other models are."""
    with pytest.raises(LoadRefusedError, match=r"compute_capability: \"8\.9\", tensorrt: \"10\.13\.2\""):
        require_loadable([_engine()], None, where="staging")
    require_loadable([], None, where="staging")


def test_the_converters_result_is_read() -> None:
    """`engine` of result.json becomes the record; none is none, and half of one is an error."""
    assert engine_of({"engine": _L4}) == _engine()
    assert engine_of({"tools": {}}) is None
    with pytest.raises(ModelInvalidError, match="compute_capability"):
        engine_of({"engine": {"gpu": "NVIDIA L4", "tensorrt": "10.13.2.6"}})
