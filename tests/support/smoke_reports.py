"""Reports of a smoke test as its pod writes them, whole or with one fault."""

from __future__ import annotations

from typing import Any

LOADED = {"status": "loaded", "seconds": 0.4, "reason": "", "log": [], "first_request_ms": 2.0}


def report(**changes: Any) -> dict[str, Any]:
    """The report of a sound model, with other parts in the place of some; None takes one away."""
    whole: dict[str, Any] = {
        "loads": [LOADED] * 3,
        "server": {"name": "triton", "version": "2.51.0"},
        "steady": {"requests": 40, "answered": 40, "p50_ms": 0.7, "p90_ms": 0.9, "differ": 0},
        "instances": {
            "expected": {"digits": 2},
            "seen": {"digits": {"digits_0_0": 9, "digits_0_1": 7}},
            "requests": 16,
            "differ": 0,
            "differences": [],
            "seconds": 0.1,
        },
        "memory": {
            "wanted": 1000,
            "requests": 1000,
            "failed": 0,
            "samples": [[number * 40, 66.0 + 0.01 * number] for number in range(26)],
            "ended": "",
            "seconds": 0.5,
        },
        "robustness": {
            "probes": [probe("zeros"), probe("NaN"), probe("no JSON", via="http", outcome="refused")],
            "left_out": 0,
            "reason": "",
            "seconds": 0.1,
        },
        "gpu": None,
        "seconds": 4.0,
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def probe(name: str, **changes: Any) -> dict[str, Any]:
    """One boundary input, which does no harm unless that is said."""
    result = {
        "via": "grpc",
        "outcome": "answered",
        "message": "gRPC OK",
        "ms": 0.6,
        "died": "",
        "golden": "",
        "log": [],
    }
    return {"name": name, **result, **changes}


def growing(mib_per_1000: float) -> dict[str, Any]:
    """The memory of a server that grows so fast from the first request on."""
    samples = [[number * 40, 66.0 + mib_per_1000 * number * 40 / 1000] for number in range(26)]
    return {"wanted": 1000, "requests": 1000, "failed": 0, "samples": samples, "ended": "", "seconds": 1.0}
