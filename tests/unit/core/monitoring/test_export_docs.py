"""docs/metrics-export.md lists what there is: every metric, every alert, as the code has them."""

from __future__ import annotations

from itertools import dropwhile, takewhile

from slipway_core.monitoring.families import FAMILIES
from slipway_core.monitoring.moments import MOMENTS
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.monitoring.manifests import alerts

PAGE = (PROJECT_ROOT / "docs" / "metrics-export.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    lines = PAGE.partition(f"\n{heading}\n")[2].splitlines()
    table = takewhile(
        lambda line: line.startswith("|"), dropwhile(lambda line: not line.startswith("|"), lines)
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in list(table)[2:]]


def words(names: tuple[str, ...]) -> str:
    """Return names as the page has them."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def test_the_page_lists_every_metric_of_prometheus() -> None:
    """Name, kind, labels, when there is a series, and the help text."""
    assert rows("### The metrics") == [
        [f"`{one.name}`", one.kind, words(one.labels), one.when, one.help_text] for one in FAMILIES
    ]


def test_the_page_lists_every_metric_that_airflow_is_told() -> None:
    """Name, kind, tags and meaning."""
    assert rows("## Airflow's own metrics") == [
        [f"`{one.name}`", one.kind, words(("model", *one.tags)), one.help_text] for one in MOMENTS
    ]


def test_the_page_lists_every_alert() -> None:
    """Name with a link to the runbook, severity, and how long it must be so."""
    assert rows("## Alerts") == [
        [f"[{name}](runbook.md#{name.lower()})", rule["labels"]["severity"], rule.get("for", "at once")]
        for name, rule in alerts().items()
    ]
