"""What each source sees: declared, in the docs' table, and in words for who reads of a pass."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from slipway_core.metrics.queries import QUERY_SETS
from slipway_core.metrics.source_kind import visibility_of
from slipway_core.metrics.visibility import ENVOY_SEES, WORDS, Visibility
from slipway_core.spec.release_file import parse_release_spec

PAGE = Path("docs/metrics.md")
DECLARED = {"scrape": ENVOY_SEES, **{name: queries.sees for name, queries in QUERY_SETS.items()}}


def table() -> dict[str, dict[str, bool]]:
    """The table of the docs: by source, and then by the words of a column."""
    part = PAGE.read_text(encoding="utf-8").partition("## What each source sees")[2]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    heading, *lines = rows[: 1 + len(DECLARED)]
    return {
        line[0].strip("`"): {
            column: cell == "yes" for column, cell in zip(heading[1:], line[1:], strict=True)
        }
        for line in lines
    }


def test_the_docs_table_is_what_is_declared() -> None:
    """Every source and query set has a row, every kind a column, and each cell says what the code says."""
    told = {
        name: {WORDS[one.name]: getattr(sees, one.name) for one in fields(Visibility)}
        for name, sees in DECLARED.items()
    }
    assert table() == told


@pytest.mark.parametrize("name", sorted(QUERY_SETS))
def test_what_is_declared_agrees_with_what_is_asked(name: str) -> None:
    """A set sees latency where it asks for a histogram, and what hangs where it asks what began and is active."""
    queries = QUERY_SETS[name]
    assert queries.sees.latency == bool(queries.latency)
    assert queries.sees.hanging == bool(queries.begun and queries.active)
    assert all(getattr(queries.sees, one.name) is not None for one in fields(Visibility))


def sees(metrics: str) -> Visibility:
    """What the source of a release file sees."""
    text = f"model: digits\nsource: {{}}\nrollout: {{metrics: {metrics}}}\n"
    return visibility_of(parse_release_spec(text, "digits.yaml").rollout.metrics)


def test_a_release_file_sees_what_its_set_sees() -> None:
    """The unseen is told in words."""
    assert sees("{}") == ENVOY_SEES
    assert sees("{source: prometheus, queries: knative}").unseen == (
        "gRPC errors",
        "requests that their clients gave up",
        "requests that hang",
        "errors inside streams",
    )


def test_of_own_selectors_nobody_can_tell() -> None:
    """What people wrote themselves is told as such; what is asked for can be said."""
    own = 'requests: \'a_total{rev="{revision}"}\', errors: \'a_total{rev="{revision}",code="5"}\''
    found = sees(f"{{source: prometheus, overrides: {{{own}}}}}")
    assert found == Visibility(None, None, None, False, None, False)
    flow = "begun: 'b_total{rev=\"{revision}\"}', active: 'b{rev=\"{revision}\"}'"
    found = sees(f"{{source: prometheus, overrides: {{{own}, {flow}}}}}")
    assert (found.given_up, found.hanging) == (True, True)
    dropped = sees(
        "{source: prometheus, queries: envoy, overrides: {begun: [], retried: [], active: [], latency: []}}"
    )
    assert dropped.unseen == (
        "requests that their clients gave up",
        "requests that hang",
        "errors inside streams",
        "latency",
    )
