"""What holds for every contract test: which of them measure time, and in which order they are begun."""

from __future__ import annotations

import functools
from pathlib import Path

import botocore.hooks
import botocore.session
import botocore.utils
import pytest
from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook

# A client of boto's reads its service's description, 100 ms of computing for S3, and a test makes several clients. The
# descriptions are files of the installed package: read once, they serve all sessions of a process.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)
# A session asks each of some hundred handlers for its signature, which are the same for all sessions.
botocore.hooks.accepts_kwargs = functools.lru_cache(maxsize=1000)(botocore.hooks.accepts_kwargs)
# Each object of a list has a time, which moto writes and boto reads by trying out how it is written.
botocore.utils._parse_timestamp_with_tzinfo = functools.lru_cache(maxsize=10_000)(
    botocore.utils._parse_timestamp_with_tzinfo
)
# A client of Airflow's tells AWS which operator has made it, for which it reads the source of all its callers. Below
# pytest these are many.
AwsGenericHook._get_caller = lambda *_: "Unknown"  # type: ignore[method-assign]

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
# Files that take longest, the longest first: workers that share the files then end at about the same time. The rest
# follows as it was found.
LONGEST = tuple(
    _HERE / name
    for name in (
        "benchmarks/chaos/test_chaos.py",
        "sandbox/test_lifecycle.py",
        "plugins/hooks/test_transfer.py",
        "plugins/operators/operations/test_gc.py",
        "plugins/operators/test_converted_models_served.py",
        "pod_scripts/test_convert_pytorch.py",
        "plugins/pods/test_verified_download.py",
        "plugins/operators/test_bundle.py",
        "plugins/registry/test_signed_release.py",
        "pod_scripts/test_convert_ensemble.py",
        "guard/test_guard.py",
        "pod_scripts/test_convert_python.py",
        "plugins/traffic/test_preview.py",
        "plugins/operators/answers/test_text_models.py",
        "plugins/traffic/test_standard_canary.py",
        "plugins/operators/operations/test_gc_stalled.py",
        "plugins/traffic/test_missing_pods.py",
        "pod_scripts/test_convert_onnx.py",
        "plugins/registry/test_interrupted_download.py",
        "sandbox/serving/test_kserve.py",
        "plugins/operators/traffic/rollback/test_permitted_versions.py",
        "dags/test_scheduling.py",
        "pod_scripts/test_convert_estimators.py",
    )
)


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark, and fail where a path of the list above leads nowhere any more."""
    config.addinivalue_line(
        "markers", "measures: measures time or judges live traffic; few others run beside it"
    )
    gone = [path for path in (*MEASURING, *LONGEST) if not path.exists()]
    if gone:
        raise pytest.UsageError(f"{__file__} names what is not there: {', '.join(map(str, gone))}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what measures, and put what takes longest first."""
    for item in items:
        if any(item.path == path or path in item.path.parents for path in MEASURING):
            item.add_marker(pytest.mark.measures)
    rank = {path: number for number, path in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
