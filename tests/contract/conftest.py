"""What holds for every contract test: which measure time, which share servers, and in which order they are begun."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import tests.support.store.quick_boto  # noqa: F401 - to import it is enough
from tests.support.web.fixtures import client_of, filled_site, site

__all__ = ["client_of", "filled_site", "site"]

_HERE = Path(__file__).parent
MEASURING = tuple(
    _HERE / name
    for name in (
        "benchmarks/chaos",
        "plugins/metrics",
        "plugins/operators/intake/test_intake_cost.py",
        "plugins/operators/test_benchmark_operator.py",
        "plugins/traffic/stalled",
        "pod_scripts/test_genai_perf.py",
        "pod_scripts/test_perf_analyzer.py",
        "sandbox/demo/test_traffic.py",
        "sandbox/lab",
        "sandbox/test_lifecycle.py",
    )
)
# Folders whose tests share servers that take long to start, Airflow's API server above all: one worker runs all of a
# group. Any other file is a group of its own.
SHARING = {
    _HERE / name: group
    for group, names in {
        "airflow-site": ("monitoring", "plugins/cli", "plugins/web"),
        "mlflow": ("plugins/registry_bridge",),
    }.items()
    for name in names
}
# Files and folders that take longest, the longest first: workers that share them then end at about the same time. The
# rest follows as it was found.
LONGEST = tuple(
    _HERE / name
    for name in (
        "sandbox/test_lifecycle.py",
        "benchmarks/chaos/test_chaos.py",
        "plugins/metrics/test_metrics_sources.py",
        "plugins/operators/test_benchmark_operator.py",
        "pod_scripts/test_genai_perf.py",
        "sandbox/lab",
        "plugins/traffic/stalled/test_bad_version.py",
        "plugins/traffic/stalled/test_good_version.py",
        "pod_scripts/test_perf_analyzer.py",
        "monitoring",
        "plugins/cli",
        "plugins/web",
        "plugins/fleet/test_release.py",
        "plugins/hooks/test_transfer.py",
        "plugins/operators/test_converted_models_served.py",
        "pod_scripts/test_convert_pytorch.py",
        "plugins/pods/test_verified_download.py",
        "plugins/operators/test_bundle.py",
        "plugins/registry/test_signed_release.py",
        "pod_scripts/test_convert_ensemble.py",
        "guard/test_guard.py",
        "pod_scripts/test_convert_python.py",
        "plugins/operators/tuning",
        "plugins/fleet",
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
    """Name the mark, and fail where a path of the lists above leads nowhere any more."""
    config.addinivalue_line(
        "markers", "measures: measures time or judges live traffic; few others run beside it"
    )
    gone = [path for path in (*MEASURING, *SHARING, *LONGEST) if not path.exists()]
    if gone:
        raise pytest.UsageError(f"{__file__} names what is not there: {', '.join(map(str, gone))}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread of which the mark asked for wants no test: reading all takes each worker ten seconds."""
    if collection_path.suffix != ".py" or config.option.markexpr not in ("measures", "not measures"):
        return None
    return True if _measures(collection_path) != (config.option.markexpr == "measures") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what measures, and put what takes longest first."""
    for item in items:
        if _measures(item.path):
            item.add_marker(pytest.mark.measures)
    items.sort(key=lambda item: _rank(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """With `--dist loadfile` a worker takes a whole file, or all files of a group."""
    return _Groups(config, log) if config.option.dist == "loadfile" else None


class _Groups(LoadFileScheduling):
    """Gives each group of files to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        path = self.config.rootpath / file
        return next((SHARING[one] for one in path.parents if one in SHARING), file)


# Asked for each test, of which a file has many.
@functools.cache
def _measures(path: Path) -> bool:
    return any(path == one or one in path.parents for one in MEASURING)


@functools.cache
def _rank(path: Path) -> int:
    """Return which place a file has in the list of those that take longest; one that it does not name comes last."""
    return next(
        (number for number, one in enumerate(LONGEST) if path == one or one in path.parents), len(LONGEST)
    )
