"""The query sets: what they ask, what fills them, and what a release file may put in their place."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.metrics.__main__ import main
from slipway_core.metrics.queries import KINDS, QUERY_SETS
from slipway_core.metrics.sources.prometheus import PrometheusMetrics
from slipway_core.selectors import PLACEHOLDERS, check_selector, fill, matchers_of
from slipway_core.spec.release_file import parse_release_spec

VALUES = {
    "inference_service": "digits",
    "model": "digits",
    "namespace": "models",
    "revision": "digits-predictor-00002",
}


@pytest.mark.parametrize("name", sorted(QUERY_SETS))
def test_every_set_is_about_the_revision(name: str) -> None:
    """Every selector can be filled in; requests, errors and latency name the revision, and nothing is left open."""
    queries = QUERY_SETS[name]
    for kind in KINDS:
        for selector in getattr(queries, kind):
            check_selector(selector, about_revision=kind != "watched")
    filled = queries.filled(VALUES)
    assert filled.requests
    assert filled.errors
    for _, query in filled.queries(60):
        assert not re.search(r"\{[a-z_]+\}", query)
        assert query.endswith("[60s]")


def test_a_release_file_can_name_every_set() -> None:
    """The release file's list of sets is the list of sets."""
    literal, _ = get_args(PrometheusMetrics.model_fields["queries"].annotation)
    assert set(get_args(literal)) == set(QUERY_SETS)


def test_errors_are_a_part_of_the_requests() -> None:
    """In each set errors are narrower selectors of counters that are counted as requests."""
    for name, queries in QUERY_SETS.items():
        filled = queries.filled(VALUES)
        for error in filled.errors:
            metric = error.partition("{")[0]
            assert any(metric == request.partition("{")[0] for request in filled.requests), name


def _accepts(selector: str, labels: dict[str, str]) -> bool:
    """Whether a selector's matchers accept a series, as Prometheus has it: what lacks is the empty text."""
    tests = {
        "=": lambda value, seen: seen == value,
        "!=": lambda value, seen: seen != value,
        "=~": lambda value, seen: re.fullmatch(value, seen) is not None,
        "!~": lambda value, seen: re.fullmatch(value, seen) is None,
    }
    return all(
        tests[operator](value, labels.get(label, ""))
        for label, operator, value in matchers_of(selector)
        if label in ("response_code", "grpc_response_status", "response_flags")
    )


@pytest.mark.parametrize("flags", ["", "-", "DC", "UC", "UF", "UT", "DC,UC", "NR"])
@pytest.mark.parametrize("code", ["0", "200", "302", "404", "503"])
@pytest.mark.parametrize("status", ["", "0", "1", "2", "4", "14", "16"])
def test_istio_counts_each_failure_once(status: str, code: str, flags: str) -> None:
    """A gRPC failure is an HTTP 200 and counts by its own status; who was not answered to the end counts too."""
    labels = {"grpc_response_status": status, "response_code": code, "response_flags": flags}
    counted = sum(_accepts(one, labels) for one in QUERY_SETS["istio"].filled(VALUES).errors)
    gone = {*flags.split(",")} & {"DC", "UC", "UT"}
    failed = (status == "" and code in ("0", "404", "503")) or status not in ("", "0", "1") or gone
    assert counted == (1 if failed else 0)


def test_values_stand_for_themselves() -> None:
    """Quotes and backslashes of a value are escaped, and where a regular expression is wanted, its signs too."""
    values = {**VALUES, "revision": 'a.b"\\c'}
    assert fill('x{rev="{revision}"}', values) == r'x{rev="a.b\"\\c"}'
    assert fill('x{pod=~"{revision}-.+"}', values) == r'x{pod=~"a\\.b\"\\\\c-.+"}'


@given(st.text(max_size=20))
def test_no_value_breaks_out_of_its_quotes(value: str) -> None:
    """Whatever a name holds, the selector keeps its one matcher, whose value reads back as the name."""
    filled = fill('x{rev="{revision}"}', {**VALUES, "revision": value})
    inside = re.fullmatch(r'x\{rev="((?:[^"\\\n]|\\[\\"n])*)"\}', filled)
    assert inside is not None
    unescaped = re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), inside.group(1))
    assert unescaped == value


@given(st.text(st.characters(max_codepoint=126), max_size=20))
def test_no_value_is_taken_for_a_regular_expression(value: str) -> None:
    """In `=~` a value matches itself and nothing else."""
    filled = fill('x{rev=~"{revision}"}', {**VALUES, "revision": value})
    inside = filled.removeprefix('x{rev=~"').removesuffix('"}')
    pattern = re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), inside)
    assert re.fullmatch(pattern, value)
    assert not re.fullmatch(pattern, value + "x")


@pytest.mark.parametrize(
    "selector",
    [
        "sum(rate(x_total[5m]))",
        'x_total{rev="{revision}"}[5m]',
        'x_total{rev="{revision}"} offset 5m',
        'x_total{rev="{revision}"} or y_total{rev="{revision}"}',
        "x_total{rev='{revision}'}",
        "x_total{rev={revision}}",
        "{}",
        "",
    ],
)
def test_only_plain_selectors_are_asked(selector: str) -> None:
    """Functions, ranges and operators are refused: the samples are wanted as they were scraped."""
    with pytest.raises(ValueError, match=r"must be a (plain )?selector"):
        check_selector(selector)


def test_a_selector_names_the_revision() -> None:
    """Without it both revisions would get the same counts, and no candidate could ever look worse."""
    with pytest.raises(ValueError, match=r"names \{revision\}"):
        check_selector('x_total{namespace="{namespace}"}')


def test_an_unknown_placeholder_is_answered_with_those_there_are() -> None:
    """A typo in a placeholder names it and lists the four."""
    with pytest.raises(ValueError, match=r"\{revison\} is not") as caught:
        check_selector('x_total{rev="{revison}"}')
    assert all(f"{{{name}}}" in str(caught.value) for name in PLACEHOLDERS)


def test_a_release_file_replaces_single_kinds() -> None:
    """What is not replaced stays the set's own, and so does the unit of latency."""
    spec = parse_release_spec(
        "model: digits\nsource: {}\nrollout: {metrics: {source: prometheus, queries: knative_otel, overrides: "
        "{requests: 'calls_total{rev=\"{revision}\"}', watched: []}}}\n",
        "digits.yaml",
    )
    queries = spec.rollout.metrics.query_set()
    assert queries.requests == ('calls_total{rev="{revision}"}',)
    assert queries.watched == ()
    assert queries.errors == QUERY_SETS["knative_otel"].errors
    assert queries.latency_unit == "s"


def test_every_query_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The program prints each query of a set as it is sent, ready to be tried elsewhere."""
    for name in QUERY_SETS:
        assert main(["--set", name, "--namespace", "serving", "--revision", "digits-predictor-00002"]) == 0
        printed = capsys.readouterr().out.splitlines()
        expected = QUERY_SETS[name].filled({**VALUES, "namespace": "serving"})
        assert [line for line in printed if line and not line.startswith("#")] == [
            query for _, query in expected.queries(60)
        ]


def test_the_queries_of_a_release_file_can_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its set, its replacements and its range; a release that scrapes asks no queries; a wrong file is explained."""
    path = tmp_path / "numbers.yaml"
    metrics = "{source: prometheus, queries: triton, lookback_s: 90, overrides: {watched: 'up{pod=\"x\"}'}}"
    path.write_text(f"model: numbers\nsource: {{}}\nrollout: {{namespace: ml, metrics: {metrics}}}\n")
    assert main(["--release", str(path), "--revision", "numbers-predictor-00007"]) == 0
    printed = capsys.readouterr().out
    assert 'namespace="ml",pod=~"numbers-predictor-00007-deployment-.+",model="numbers"}[90s]' in printed
    assert 'up{pod="x"}[90s]' in printed

    path.write_text("model: numbers\nsource: {}\n")
    assert main(["--release", str(path), "--revision", "numbers-predictor-00007"]) == 0
    assert "asks no queries" in capsys.readouterr().out

    path.write_text("model: numbers\n")
    assert main(["--release", str(path), "--revision", "numbers-predictor-00007"]) == 1
    assert "`source` is missing" in capsys.readouterr().err


def test_a_selector_of_blank_lines_is_refused_at_once() -> None:
    """However long it is: white space around a selector is taken away before it is looked at."""
    began = time.process_time()
    with pytest.raises(ValueError, match="plain selector"):
        check_selector("\n" * 3000 + "(")
    assert time.process_time() - began < 0.2
