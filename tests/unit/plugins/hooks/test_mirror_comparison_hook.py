"""Where the comparer of mirrored requests listens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.hooks.mirror_comparison import Listening, MirrorComparisonHook
from slipway_core.errors import UserError


def connect(monkeypatch: pytest.MonkeyPatch, **connection: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_MIRROR", json.dumps({"conn_type": "http", **connection}))


def test_without_a_connection_the_defaults_hold() -> None:
    """A pod listens on all its addresses, at the ports that the manifests name."""
    assert MirrorComparisonHook("no_such_mirror").listening() == Listening("0.0.0.0", 8080, 8081)


def test_a_connection_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it names is taken, what it leaves out is the default."""
    connect(monkeypatch, host="127.0.0.1", port=9000, extra={"grpc_port": 9001})
    assert MirrorComparisonHook().listening() == Listening("127.0.0.1", 9000, 9001)
    connect(monkeypatch, port=9000)
    assert MirrorComparisonHook().listening() == Listening("0.0.0.0", 9000, 8081)


@pytest.mark.parametrize("extra", [{"grpc_port": 8080}, {"grpc_port": "eighty"}, {"grpc_port": 70000}])
def test_ports_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]) -> None:
    """One port for both protocols, or what is no port, is an error that names the connection."""
    connect(monkeypatch, port=8080, extra=extra)
    with pytest.raises(UserError, match=r"slipway_mirror.*grpc_port"):
        MirrorComparisonHook().listening()
