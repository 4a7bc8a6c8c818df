"""What the README claims agrees with the pages that hold the measurements."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SANDBOX = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")
JUDGE = (ROOT / "docs" / "judge-table.md").read_text(encoding="utf-8")


def cells(text: str, name: str) -> list[str]:
    """Return the cells of the one row of a table that begins with this name. ValueError: there is none, or several."""
    (row,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", text, re.MULTILINE)
    return [cell.strip() for cell in row.split(" | ")]


def measured(cell: str) -> tuple[float, str]:
    """Return a cell's percentage and the minutes after it, "" where there are none: `100 % / 13 / 1,936`."""
    parts = [part.strip() for part in cell.split(" / ")]
    return float(parts[0].split()[0]), parts[1] if len(parts) > 1 else ""


def shown(cell: str) -> tuple[float, str]:
    """Return the same of a cell of the README: `100 %, 13 min`."""
    share, _, minutes = cell.partition(", ")
    return float(share.strip("*").split()[0]), minutes.strip("*").removesuffix(" min")


FOUND = {
    "errors rise from 0.5 to 2 %: found, after": "errors 0.5 → 2 %, 50/s, weights from 2 %",
    "latency × 1.3: found, after": "latency ×1.3, 50/s (sigma 0.35, Envoy buckets)",
    "1 % of the answers five times as slow: found, after": "1 % of requests ×5, 50/s (sigma 0.7, Envoy buckets)",
}


@pytest.mark.parametrize("row", FOUND, ids=["errors", "latency", "tail"])
def test_what_the_judges_find(row: str) -> None:
    """The README's shares and minutes are those of the judge's table, for Slipway, Argo Rollouts, and Flagger."""
    ours, argo, flagger, *others = cells(README, row)
    _, found, minutes, _, _, flagger_found, argo_found, *_ = cells(JUDGE, FOUND[row])
    assert shown(ours) == (measured(found)[0], minutes)
    assert [shown(argo), shown(flagger)] == [measured(argo_found), measured(flagger_found)]
    assert set(others) == {"not measured"}


FAILED = {
    "no difference: good versions failed": [
        f"no difference, {rate}/s, weights from {weight} %" for rate in (1, 5, 50, 500) for weight in (2, 5)
    ],
    "cold cache at small weights: good versions failed": [
        "2 % of the answers ×3 at weights up to 10 %, 500/s"
    ],
}


@pytest.mark.parametrize("row", FAILED, ids=["no difference", "cold cache"])
def test_how_often_the_judges_fail_a_good_version(row: str) -> None:
    """The README's counts are the sums of the judge's table."""
    counts = {"Slipway": 0.0, "Argo Rollouts": 0.0, "Flagger": 0.0}
    runs = 0
    for name in FAILED[row]:
        of, failed, _, _, flagger, argo, *_ = cells(JUDGE, name)
        runs += int(of)
        for who, cell in (("Slipway", failed), ("Argo Rollouts", argo), ("Flagger", flagger)):
            counts[who] += measured(cell)[0] * int(of) / 100
    expected = [f"{count:.0f} of {runs}" for count in counts.values()]
    assert [cell.strip("*") for cell in cells(README, row)] == [*expected, "not measured", "not measured"]


def test_the_sentence_at_the_top_is_the_demo() -> None:
    """The requests, failures, and seconds near the top are those of the demo's output."""
    (sent, failed, on_stable) = re.findall(
        r"Clients sent (\d+) requests .*; (\d+) failed, (\d+) of them on the stable version\.", SANDBOX
    )[0]
    seconds = re.findall(r"gave \d+ bad answers; ([\d.]+) s after the first it had no traffic", SANDBOX)[0]
    top = " ".join(README.split("![The demo")[0].split())
    assert f"{failed} of {int(sent):,} requests failed, none of them on the stable version" in top
    assert on_stable == "0"
    assert f"{seconds} seconds after the first bad answer" in top


def test_the_picture_of_the_demo_is_its_output() -> None:
    """Each line of the picture stands in the demo's output on the sandbox's page, in the same order."""
    picture = ElementTree.parse(ROOT / "docs" / "images" / "demo.svg").getroot()  # noqa: S314 (our own file)
    lines = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert lines[0] == "$ make demo"
    output = iter(SANDBOX.splitlines())
    assert [line for line in lines[1:] if line not in output] == []
