"""Links beside a task in Airflow's UI."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slipway.extra_links import EVIDENCE_LINKS, EvidenceLink, ReleaseLink, ReportLink
from slipway.operators.fleet.release import FleetVersionLink, PlaceFleetVersionOperator

RUN = {"release_id": "manual__2026-11-22T10:00:00+00:00", "model": "digits", "version": 2, "bucket": "b"}


@pytest.fixture(autouse=True)
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's address."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")


def links(release: Any, evidence_file: str = "validation.html") -> list[str]:
    task = cast("Any", SimpleNamespace(release=release, evidence_file=evidence_file))
    return [link.get_link(task, ti_key=cast("Any", None)) for link in EVIDENCE_LINKS]


def test_a_task_leads_to_the_release_and_to_what_it_wrote() -> None:
    """The evidence lies in a folder named after the run."""
    here = "https://airflow.example.com/slipway"
    assert links(json.dumps(RUN)) == [
        f"{here}/models/digits/versions/2",
        f"{here}/evidence/digits/2/manual__2026-11-22T10~3a00~3a00~2b00~3a00/validation.html",
    ]
    assert links(RUN, "benchmark/verdict.json")[1].endswith("00~3a00/benchmark/verdict.json")


def test_a_task_of_a_fleet_leads_to_the_version(tmp_path: Path) -> None:
    """The model is the fleet's; a fleet without a file makes no link, and no error."""
    (tmp_path / "edge.yaml").write_text("fleet: edge\nmodel: digits\nconnections: [a]\n")

    def link(fleet: str) -> str:
        task = PlaceFleetVersionOperator(
            task_id="place", releases_dir="", bucket="b", fleet=fleet, version="2", fleets=str(tmp_path)
        )
        return FleetVersionLink().get_link(task, ti_key=cast("Any", None))

    assert link("edge") == "https://airflow.example.com/slipway/models/digits/versions/2"
    assert link("../edge") == link("other") == ""


def test_a_task_without_evidence_of_its_own_leads_to_the_release() -> None:
    """There is nothing else to show."""
    assert links(json.dumps(RUN), "")[1] == "https://airflow.example.com/slipway/models/digits/versions/2"


@pytest.mark.parametrize(
    "release",
    [
        None,
        "",
        "null",
        "{{ ti.xcom_pull(task_ids='admit') | tojson }}",
        "[1]",
        json.dumps({**RUN, "model": "javascript:alert(1)"}),
        json.dumps({**RUN, "model": "../../users"}),
        json.dumps({**RUN, "version": "2/../../3"}),
        json.dumps({**RUN, "version": -1}),
    ],
)
def test_what_is_no_release_run_makes_no_link(release: Any) -> None:
    """A task that was never rendered, or an XCom that somebody else wrote: no address, and no error."""
    assert links(release) == ["", ""]


def test_a_hostile_run_id_stays_within_the_versions_evidence() -> None:
    """Slashes and the like are replaced, as in the bucket; a run named `..` has no page."""
    page = links({**RUN, "release_id": "a/../../b?c=<d>"})[1]
    assert page.endswith("/evidence/digits/2/a~2f.~2e~2f.~2e~2fb~3fc~3d~3cd~3e/validation.html")
    assert links({**RUN, "release_id": ".."})[1].endswith("/evidence/digits/2/~2e~2e/validation.html")


@pytest.mark.parametrize(
    ("report", "model", "page"),
    [
        (("gc", "plan.html"), None, "gc/all-retention-1/plan.html"),
        (("revalidation", "models/MODEL.html"), "digits", "revalidation/all-retention-1/models/digits.html"),
    ],
)
def test_a_runs_page_has_a_link(report: tuple[str, str], model: str | None, page: str) -> None:
    """Of the whole run, or of the model that a mapped task looks at."""
    task = cast("Any", SimpleNamespace(report=report, model=model))
    key = cast("Any", SimpleNamespace(run_id="all-retention-1"))
    assert ReportLink().get_link(task, ti_key=key) == f"https://airflow.example.com/slipway/reports/{page}"


def test_a_hostile_model_makes_no_link() -> None:
    """A mapped task's model is a name that another task has returned."""
    task = cast("Any", SimpleNamespace(report=("revalidation", "models/MODEL.html"), model="../../x"))
    assert ReportLink().get_link(task, ti_key=cast("Any", SimpleNamespace(run_id="run"))) == ""


def test_each_link_has_a_place_of_its_own() -> None:
    """Airflow keeps a link under the name of its class."""
    assert {ReleaseLink().xcom_key, EvidenceLink().xcom_key} == {"_link_ReleaseLink", "_link_EvidenceLink"}
