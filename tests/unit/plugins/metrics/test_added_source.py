"""A metrics source that another package adds: named by a release file, made of a connection, read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from slipway.metrics.source import READERS
from slipway_core.spec.rollout.metrics import Metrics
from tests.support.other_package import ROOT, install, run_installed

MODULE = '''
from typing import ClassVar, Literal

from slipway.metrics.source import READERS, MetricsReader
from slipway_core.metrics.samples import Counters, Reading, SeriesReading
from slipway_core.metrics.source_kind import MetricsSourceKind, metrics_source_kind
from slipway_core.metrics.visibility import UNKNOWN


@metrics_source_kind
class LedgerMetrics(MetricsSourceKind):
    """Counts that a ledger keeps."""

    source: Literal["ledger"] = "ledger"
    account: str

    def sees(self):
        return UNKNOWN


@READERS.register
class LedgerReader(MetricsReader):
    name: ClassVar[str] = "ledger"
    interval_s = 2.0
    lag_s = 1.0

    def __init__(self, account, conn_id):
        self.account, self.conn_id = account, conn_id

    @classmethod
    def of(cls, spec, metrics_conn_id):
        return cls(spec.rollout.metrics.account, metrics_conn_id)

    def read(self, revisions):
        return {revision: f"{self.account} of {revision} by {self.conn_id}" for revision in revisions}
'''
SETTINGS = {"slipway.metrics_sources": {"ledger": "ledger:LedgerMetrics"}}
BOTH = SETTINGS | {"slipway.metrics_readers": {"ledger": "ledger:LedgerReader"}}
PROGRAM = """
    from slipway.metrics.source import metrics_source
    from slipway_core.errors import SlipwayError
    from slipway_core.spec.release_file import parse_release_spec
    try:
        text = "model: a\\nsource: {}\\nrollout: {metrics: {source: ledger, account: users}}"
        spec = parse_release_spec(text, "a.yaml")
        print("airflow" in __import__("sys").modules, metrics_source(spec, "books").read(["a-1"]))
    except SlipwayError as error:
        print(type(error).__name__, error)
"""


def test_a_source_of_another_package_is_named_and_read(tmp_path: Path) -> None:
    """Two classes, its keys and what reads it, each with an entry point of that name."""
    install(tmp_path, "ledger", MODULE, BOTH)
    done = run_installed(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False {'a-1': 'users of a-1 by books'}"


def test_a_source_that_nothing_reads_is_an_error(tmp_path: Path) -> None:
    """Its numbers are not asked of a Prometheus instead."""
    install(tmp_path, "ledger", MODULE.replace("@READERS.register", ""), SETTINGS)
    told = run_installed(tmp_path, PROGRAM).stdout
    assert told.startswith("UnknownKindError there is no reader of a metrics source 'ledger'")
    assert "one of prometheus, scrape" in told


def test_an_unknown_source_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    """Where the package is not installed, the release file cannot be read."""
    told = run_installed(tmp_path, PROGRAM).stdout
    assert (
        '`rollout.metrics.source` has a wrong value. Expected one of prometheus, scrape; found `"ledger"`'
        in told
    )


def test_each_source_has_what_reads_it_and_its_rows_in_the_documents() -> None:
    """docs/metrics.md has a row for each source, and none beside them."""
    assert Metrics.registry.built_in() == READERS.built_in() == tuple(sorted(READERS.all()))
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = text[text.index("| source | reads | for |") :].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == list(READERS.built_in())


def test_the_records_of_a_release_keep_the_source(tmp_path: Path) -> None:
    """What a task is given of the release file names the source and its keys, and is read again as it was."""
    install(tmp_path, "ledger", MODULE, BOTH)
    program = """
        import json
        from slipway_core.spec.release_file import parse_release_spec, release_spec_of
        text = "model: a\\nsource: {}\\nrollout: {metrics: {source: ledger, account: users}}"
        spec = parse_release_spec(text, "a.yaml")
        data = spec.model_dump(mode="json")
        print(json.dumps([data["rollout"]["metrics"]["account"], release_spec_of(data, "a task") == spec]))
    """
    assert json.loads(run_installed(tmp_path, program).stdout) == ["users", True]
