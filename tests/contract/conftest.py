"""What holds for every contract test, and which of them measure time: few others run beside those."""

from __future__ import annotations

import functools
from pathlib import Path

import botocore.session
import pytest

# A client of boto's reads its service's description, 100 ms of computing for S3, and a test makes several clients. The
# descriptions are files of the installed package: read once, they serve all sessions of a process.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)

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
