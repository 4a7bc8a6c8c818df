"""Mark the tests that measure time or judge live traffic; few others run beside them, so that they stay true."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
MEASURING = tuple(
    _HERE / name
    for name in (
        "benchmarks/chaos",
        "plugins/metrics",
        "plugins/operators/intake/test_intake_cost.py",
        "plugins/operators/test_benchmark_operator.py",
        "plugins/traffic/test_stalled_dependencies.py",
        "pod_scripts/test_genai_perf.py",
        "pod_scripts/test_perf_analyzer.py",
        "sandbox/demo/test_traffic.py",
        "sandbox/lab",
        "sandbox/test_lifecycle.py",
    )
)


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark, and fail where a path of the list above leads nowhere any more."""
    config.addinivalue_line(
        "markers", "measures: measures time or judges live traffic; few others run beside it"
    )
    gone = [path for path in MEASURING if not path.exists()]
    if gone:
        raise pytest.UsageError(f"{__file__} names what is not there: {', '.join(map(str, gone))}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what measures."""
    for item in items:
        if any(item.path == path or path in item.path.parents for path in MEASURING):
            item.add_marker(pytest.mark.measures)
