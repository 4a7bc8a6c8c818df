"""Slipway's hook on Triton: it asks through the provider, and what goes wrong is an error of Slipway's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from airflow_provider_triton import errors
from airflow_provider_triton.client import calls
from airflow_provider_triton.hooks.triton import TritonHook as ProviderHook
from slipway.hooks.triton import TritonCaller, TritonHook
from slipway.triton_errors import slipway_error
from slipway_core.errors import (
    GateRefusedError,
    ServerUnavailableError,
    SlipwayError,
    TransientError,
    UserError,
)
from slipway_sandbox.host.ports import free_port
from tests.support.triton_provider.servers import typed_connection

ROW = {"x": np.zeros((1, 2), np.float32)}


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> TritonHook:
    """The hook on a server that nobody has started."""
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", typed_connection(free_port(), grpc_port=free_port()))
    return TritonHook("away", timeout_s=0.5)


@pytest.mark.parametrize("kind", [*errors.all_errors()][1:], ids=lambda kind: kind.__name__)
def test_each_error_of_the_provider_has_one_of_slipways(kind: type[errors.TritonError]) -> None:
    """Name and words are the same, and Airflow tries again what it would have tried again."""
    given = kind("no", expected="e", found="f", remedy="r")
    error = slipway_error(given)
    assert type(error).__name__ == kind.__name__
    assert (str(error), error.to_dict()) == (str(given), given.to_dict())
    assert isinstance(error, TransientError) is issubclass(kind, errors.TransientError)
    assert isinstance(error, UserError | GateRefusedError) is issubclass(kind, errors.UserError)


ASKED: dict[str, Callable[[TritonHook], Any]] = {
    "is_live": lambda hook: hook.is_live(),
    "is_ready": lambda hook: hook.is_ready(),
    "is_model_ready": lambda hook: hook.is_model_ready("m", 1),
    "server_metadata": lambda hook: hook.server_metadata(),
    "index": lambda hook: hook.index(),
    "ready_versions": lambda hook: hook.ready_versions("m"),
    "metadata": lambda hook: hook.metadata("m"),
    "config": lambda hook: hook.config("m"),
    "statistics": lambda hook: hook.statistics("m"),
    "load": lambda hook: hook.load("m"),
    "unload": lambda hook: hook.unload("m"),
    "trace_settings": lambda hook: hook.trace_settings(),
    "set_trace_settings": lambda hook: hook.set_trace_settings({}),
    "log_settings": lambda hook: hook.log_settings(),
    "set_log_settings": lambda hook: hook.set_log_settings({}),
    "system_shared_memory": lambda hook: hook.system_shared_memory(),
    "cuda_shared_memory": lambda hook: hook.cuda_shared_memory(),
    "ask": lambda hook: hook.ask(calls.live()),
    "ask_async": lambda hook: asyncio.run(hook.ask_async(calls.live())),
    "infer": lambda hook: hook.infer("m", 1, ROW, ["y"]),
    "infer_stream": lambda hook: hook.infer_stream("m", 1, [ROW], ["y"]),
}
# They ask no server, or say what is wrong in words.
ASKING_NOTHING = {"caller", "address", "grpc_address", "http_address", "timeout_s", "test_connection"}


@pytest.mark.parametrize("name", ASKED)
def test_a_server_that_is_away_is_slipways_error(hook: TritonHook, name: str) -> None:
    """Whichever way it is asked; the cause is the provider's error."""
    with pytest.raises(ServerUnavailableError) as caught:
        ASKED[name](hook)
    assert isinstance(caught.value.__cause__, errors.ServerUnavailableError)


def test_no_way_of_asking_is_left_out() -> None:
    """Whoever gives the provider's hook another method is told to look whether its errors are translated."""
    public = {name for name in vars(ProviderHook) if not name.startswith("_")}
    fields = {"conn_name_attr", "default_conn_name", "conn_type", "hook_name", "settings", "repository_path"}
    assert public - ASKED.keys() - ASKING_NOTHING - fields == set()


@pytest.mark.parametrize("name", ["settings", "repository_path"])
def test_a_connection_that_cannot_be_used_is_slipways_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a person's to correct."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_WRONG", typed_connection(1, protocol="pigeon", repository_path="relative")
    )
    with pytest.raises(UserError, match="'wrong'"):
        getattr(TritonHook("wrong"), name)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda caller: caller.ask_async(calls.live(), 0.5), id="ask"),
        pytest.param(lambda caller: caller.infer_async("m", 1, ROW, ["y"]), id="infer"),
        pytest.param(lambda caller: caller.wait_ready("m", [1], 0.2, 0.1), id="wait"),
        pytest.param(lambda caller: caller.drain("m", quiet_s=0.1, limit_s=0.5), id="drain"),
    ],
)
async def test_the_caller_of_a_fleet_raises_slipways_errors(
    hook: TritonHook, ask: Callable[[Any], Any]
) -> None:
    """Also of a wait, which ends when its time is over."""
    with pytest.raises(SlipwayError) as caught:
        await ask(TritonCaller(hook.settings, 0.5))
    assert isinstance(caught.value, TransientError)


def test_a_signature_that_cannot_be_read_is_no_answer(
    hook: TritonHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again by Airflow's retries: a proxy may have answered."""

    def answered(self: Any, call: calls.Call[Any], limit_s: float | None = None) -> Any:
        return self._parsed(call, {"name": "m", "inputs": [{"name": "x", "datatype": "ODD", "shape": [1]}]})

    monkeypatch.setattr("airflow_provider_triton.client.caller.TritonCaller.ask", answered)
    with pytest.raises(ServerUnavailableError, match="cannot be read"):
        hook.signature("m", 1)
