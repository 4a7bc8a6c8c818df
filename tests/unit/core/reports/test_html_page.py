"""What all pages have in common: hostile text stays text, nothing is loaded, and a missing value is an error."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.fuzz.targets.evidence import COMPARISON
from slipway_core.gates.mirror_comparison import (
    MirrorLimits,
    MirrorReport,
    judge_mirror,
    mirror_evidence,
)
from slipway_core.gates.smoke_test.evidence import smoke_test_evidence
from slipway_core.gates.smoke_test.judge import judge_smoke_test
from slipway_core.gates.smoke_test.report import SmokeTestReport
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_core.reports.html_page import render_page
from slipway_core.reports.mirror_page import render_mirror_html
from slipway_core.reports.smoke_test_page import render_smoke_test_html
from slipway_core.reports.validation.page import render_report_html
from slipway_core.spec.smoke_test import SmokeTest
from slipway_sandbox.lab.simulation.recorded_canary import STEPS, Story, Traffic
from tests.support.reports.documents import SIGNATURE, VALIDATION
from tests.support.reports.html import parse_page
from tests.support.smoke_reports import LOADED, probe
from tests.support.smoke_reports import report as smoke_report

_HOSTILE = (
    "</td></title></style><script>alert(1)</script><img src=x onerror=alert(1)>' id='x\" id=\"{{ 7 * 7 }}"
)
# Words that a page looks up or reads as a time; others cannot be there.
_LOOKED_UP = re.compile(r"status|verdict|source|kind|outcome|until|at|(?!created).*_at")


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where texts stand in a document, those apart that decide what the page shows."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(part, (*path, key))
    elif isinstance(value, str) and not _LOOKED_UP.fullmatch(str(path[-1])):
        yield path


def _with_text(document: Any, text: str) -> Any:
    """Return the document with `text` in every place of a text."""
    changed = copy.deepcopy(document)
    for *path, last in _places(document):
        part = changed
        for key in path:
            part = part[key]
        part[last] = text
    return changed


def _canary() -> dict[str, Any]:
    story = Story()
    story.canary(Traffic(seed=2), windows=3)
    story.canary(Traffic(candidate_errors=0.3))
    story.restore()
    return canary_evidence(story.events, story.policy, planned=STEPS).to_document()


def _canary_page(document: Any) -> str:
    return render_canary_html(CanaryEvidence.from_document(document))


def _mirror() -> dict[str, Any]:
    limits = MirrorLimits(200, False, 1e-4, 1e-3, "y", 0.9, 0.0, 1.0)
    report = MirrorReport.from_json(COMPARISON)
    return mirror_evidence(
        model="digits",
        version=3,
        stable_version=2,
        release_id="manual__1",
        created_at="2026-01-02T03:04:05+00:00",
        verdict=judge_mirror(report, limits),
        limits=limits,
        report=report,
    )


def _smoke_test() -> dict[str, Any]:
    probes = [probe("NaN", died="killed", log=["line"]), probe("no JSON", via="http", outcome="refused")]
    robustness = {"probes": probes, "left_out": 2, "reason": "three servers had died"}
    crashed = {**LOADED, "status": "crashed", "reason": "killed", "log": ["line"]}
    broken = {"message": "no answer", "died": "killed", "log": ["line"]}
    read = SmokeTestReport.from_json(
        smoke_report(loads=[LOADED, crashed], broken=broken, robustness=robustness)
    )
    return smoke_test_evidence(
        model="digits",
        version=3,
        release_id="manual__1",
        manifest_sha256="ab",
        created_at="2026-01-02T03:04:05+00:00",
        verdict=judge_smoke_test(read, SmokeTest()),
        limits=SmokeTest(),
        report=read,
    )


_TEXTS = {
    **VALIDATION,
    "kind": "text",
    "worst": [{"row": 0, "asked": "q", "label": "a", "predicted": "b", "stable": "c"}],
}
_PAGES: list[tuple[Callable[[Any], str], Callable[[], Any]]] = [
    (render_report_html, lambda: VALIDATION),
    (render_report_html, lambda: _TEXTS),
    (render_report_html, lambda: SIGNATURE),
    (render_mirror_html, _mirror),
    (render_smoke_test_html, _smoke_test),
    (_canary_page, _canary),
]


@pytest.mark.parametrize(("render", "document"), _PAGES)
def test_hostile_text_stays_text_wherever_it_stands(
    render: Callable[[Any], str], document: Callable[[], Any]
) -> None:
    """Markup, quotes and a template's braces in every text of a document add no element and no attribute."""
    plain, hostile = (parse_page(render(_with_text(document(), text))) for text in ("words", _HOSTILE))
    assert hostile.tags == plain.tags
    assert hostile.attributes == plain.attributes
    assert "{{ 7 * 7 }}" in " ".join(hostile.text)


@pytest.mark.parametrize(("render", "document"), _PAGES)
def test_a_page_forbids_itself_to_load_or_run_anything(
    render: Callable[[Any], str], document: Callable[[], Any]
) -> None:
    """The policy in the head allows styles that are in the page, and nothing else."""
    head = render(document()).partition("<title>")[0]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in head


def test_a_value_that_a_template_misses_is_an_error() -> None:
    """A page never shows nothing in place of what it should say."""
    with pytest.raises(ValueError, match="'evidence' is undefined"):
        render_page("mirror/page.html.j2", report=None)


def test_templates_are_read_when_the_first_page_is_made() -> None:
    """To import the modules of the pages does not import Jinja2: DAG files are parsed often."""
    program = (
        "import sys\n"
        "import slipway_core.reports.mirror_page\n"
        "import slipway_core.reports.smoke_test_page\n"
        "import slipway_core.reports.validation.page\n"
        "import slipway_core.reports.canary.page\n"
        "assert 'jinja2' not in sys.modules\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stderr == ""
