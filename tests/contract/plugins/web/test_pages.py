"""Pages and JSON over a bucket with everything in it, as a viewer gets them from Airflow's API server."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator

import httpx
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.release_view import ReleaseView
from tests.support.reports.html import parse_page
from tests.support.store.connections import own_connection
from tests.support.waiting import wait_until
from tests.support.web.airflow_site import AirflowSite

MODELS = {"digits", "fraud-score", "search-ranker", "churn", "text-embed", "vision-ocr", "intent"}


@pytest.fixture(scope="module")
def viewer(filled_site: AirflowSite) -> Iterator[httpx.Client]:
    """A viewer, once the read model has made every document."""
    with filled_site.client("viewer") as client:

        def all_known() -> bool:
            return {
                one["model"] for one in client.get("/api/models").json()["models"] if "versions" in one
            } >= MODELS

        wait_until(all_known, "the read model has made its documents")
        yield client


def test_the_json_is_what_the_read_model_has(viewer: httpx.Client) -> None:
    """Programs parse it with the documents' own types."""
    answer = viewer.get("/api/models").json()
    documents = {one["model"]: ModelDocument.model_validate_json(_json(one)) for one in answer["models"]}
    assert documents["digits"].live_version == 4
    assert answer["problem"] == ""
    assert [one["by"] for one in answer["freezes"]] == ["ops"]
    one = viewer.get("/api/models/digits").json()
    assert ModelDocument.model_validate_json(_json(one)).versions == documents["digits"].versions
    version = viewer.get("/api/models/digits/versions/5").json()
    assert ReleaseView.model_validate_json(_json(version["release"])).line.version == 5
    assert LiveDocument.model_validate_json(_json(version["live"])).weight_observed == 25
    assert viewer.get("/api/models/digits/versions/4").json()["live"] is None


def test_a_model_that_was_never_released_is_known_to_programs(viewer: httpx.Client) -> None:
    """It has a release file, and no version yet."""
    listed = {one["model"]: one for one in viewer.get("/api/models").json()["models"]}
    assert (listed["magika"]["versions"], listed["magika"]["live_version"]) == ([], None)
    assert viewer.get("/api/models/magika").json()["versions"] == []


def test_a_form_is_offered_what_has_landed(viewer: httpx.Client) -> None:
    """With what is live and under way; a version whose ready.json is missing is not complete."""
    landed = viewer.get("/api/landed/digits").json()
    assert (landed["live_version"], landed["previous_version"], landed["under_way"]) == (4, 1, 5)
    complete = {one["version"]: one["is_complete"] for one in landed["versions"]}
    assert complete[6] is True
    assert complete[4] is False
    assert viewer.get("/api/landed/nothing-landed").json()["versions"] == []


def test_a_version_that_is_not_there_is_said_in_sentences(viewer: httpx.Client) -> None:
    """What is wrong and what to do, each a sentence of its own."""
    page = viewer.get("/models/digits/versions/99").text
    assert "<p>Version 99 of &#39;digits&#39; has no record.</p>" in page
    assert "<p>See all versions of digits.</p>" in page


@pytest.mark.parametrize(
    "path",
    [
        "/api/models/no-such-model",
        "/api/models/digits/versions/99",
        "/api/models/digits/versions/0",
        "/models/no-such-model",
        "/models/NOT A NAME",
        "/models/digits/diff/1/x",
        "/evidence/digits/x/",
    ],
)
def test_what_there_is_not_is_404(viewer: httpx.Client, path: str) -> None:
    """In plain words, whatever was asked for."""
    answer = viewer.get(path)
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


def test_the_overview_shows_what_needs_somebody_first(viewer: httpx.Client) -> None:
    """A search without a script shows the rest away."""
    page = viewer.get("/").text
    assert page.index("fraud-score") < page.index("digits") < page.index("vision-ocr")
    assert "waits for approval before the canary" in page
    found = viewer.get("/", params={"q": "rank"}).text
    assert "search-ranker" in found
    assert "vision-ocr" not in found
    only = viewer.get("/", params={"show": "findings"}).text
    assert "text-embed" in only
    assert "churn" not in only


def test_nothing_that_a_person_wrote_is_markup(viewer: httpx.Client) -> None:
    """A reason with angle brackets is shown as it was written."""
    for path in ("/", "/calendar", "/audit", "/models/digits"):
        page = viewer.get(path).text
        assert "<4>" not in page
        assert "rack &lt;4&gt;" in page


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/models/digits",
        "/models/magika",
        "/models/digits/diff/2/4",
        "/calendar",
        "/audit",
        "/evidence/digits/2/",
    ],
)
def test_a_page_holds_nothing_inline_and_nothing_from_elsewhere(viewer: httpx.Client, path: str) -> None:
    """The policy would keep it from the page; so would a page that is well formed."""
    answer = viewer.get(path)
    assert answer.status_code == 200
    parse_page(answer.text)
    assert " style=" not in answer.text
    assert "<style" not in answer.text
    assert "http://" not in answer.text.replace("http://www.w3.org/", "")
    assert "https://" not in answer.text


def test_two_versions_are_compared(viewer: httpx.Client) -> None:
    """The form leads to the page of both; what differs is marked."""
    answer = viewer.get("/models/digits/diff", params={"a": "4", "b": "2"})
    assert answer.headers["location"].endswith("/slipway/models/digits/diff/2/4")
    page = viewer.get("/models/digits/diff/2/4").text
    assert "max_batch_size: 64" in page
    assert "max_batch_size: 128" in page
    assert "2026-02" in page
    refused = viewer.get("/models/digits/diff/3/4").text
    assert "v3 has nothing published to compare" in refused


def test_a_release_says_what_changed_since_the_stable_version(viewer: httpx.Client) -> None:
    """Figures with their difference and what it means, and the lines of the configuration that differ."""
    page = viewer.get("/models/digits/versions/5").text
    assert "What changed since version 4" in page
    assert re.search(r"validation: accuracy</th>.*?0\.95</td>.*?0\.955</td>.*?better", page, re.DOTALL)
    assert "+ max_batch_size: 160" in page


def test_a_model_has_its_delivery_figures(viewer: httpx.Client) -> None:
    """Of two releases that users met one was rolled back."""
    page = viewer.get("/models/churn").text
    assert re.search(r"Failure rate</dt>.*?50 %.*?of 2 releases that had users", page, re.DOTALL)


def test_evidence_is_served_in_a_sandbox(viewer: httpx.Client) -> None:
    """A page of ours runs nothing, and Airflow may frame it."""
    listed = viewer.get("/evidence/digits/2/").text
    assert "/evidence/digits/2/digits-2/canary.html" in listed
    answer = viewer.get("/evidence/digits/2/digits-2/canary.html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert "frame-ancestors 'self'" in policy
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "name",
    [
        "digits-2/../../manifest.json",
        "digits-2/%2e%2e/%2e%2e/manifest.json",
        "..%2f..%2fmanifest.json",
        "digits-2/.hidden",
        "digits-2//canary.html",
        "/records/digits/2/000001-release_started.json",
        "digits-2/can%00ary.html",
        "digits-2/" + "x" * 600,
        "",
    ],
)
def test_no_other_object_is_served_as_evidence(viewer: httpx.Client, name: str) -> None:
    """Whatever the name says."""
    answer = viewer.get(f"/evidence/digits/2/digits-2/{name}" if not name else f"/evidence/digits/2/{name}")
    assert answer.status_code in (404, 307)
    assert "schema_version" not in answer.text
    assert viewer.get("/reports/models/digits/2/manifest.json").status_code == 404
    assert viewer.get("/reports/gc/../../models/digits/2/manifest.json").status_code == 404


def test_the_content_type_is_ours_and_never_the_stores(
    filled_site: AirflowSite, viewer: httpx.Client
) -> None:
    """An object of an unknown kind is a download, whatever it says that it is; one that is too large is not served."""
    with own_connection(filled_site.store_endpoint) as conn_id:
        store = ModelStoreHook(filled_site.bucket, conn_id)
        prefix = "models/intent/3/evidence/run/"
        store.write(f"{prefix}page.svg", b"<svg onload='x'/>", content_type="image/svg+xml")
        store.write(f"{prefix}data.jsonl", b"<script>1</script>", content_type="text/html")
        store.write("operations/gc/run-1/page.html", b"<p>a page</p>")
    unknown = viewer.get("/evidence/intent/3/run/page.svg")
    assert unknown.headers["content-type"] == "application/octet-stream"
    assert unknown.headers["content-disposition"] == 'attachment; filename="page.svg"'
    assert (
        viewer.get("/evidence/intent/3/run/data.jsonl").headers["content-type"] == "text/plain; charset=utf-8"
    )
    assert viewer.get("/reports/gc/run-1/page.html").text == "<p>a page</p>"


def test_the_calendar_tells_freezes_and_windows(viewer: httpx.Client) -> None:
    """On the page with words beside each picture, and as JSON."""
    page = viewer.get("/calendar").text
    assert "the sale of the year" in page
    assert "open 08:00 to 15:00" in page or "open 07:00 to 14:00" in page
    told = viewer.get("/api/calendar").json()
    assert [one["model"] for one in told["freezes"]] == [None, "search-ranker"]
    assert set(told["windows"]) == {"fraud-score", "search-ranker"}


def test_the_audit_has_who_did_what(viewer: httpx.Client) -> None:
    """By model, person and time; as a page, JSON, JSON lines and a table."""
    acts = viewer.get("/api/audit").json()["acts"]
    told = {(act["by"], act["act"], act["model"]) for act in acts}
    assert {
        ("jonas", "approved before the canary", "digits"),
        ("jonas", "lifted the rejection", "churn"),
        ("olga", "froze", "search-ranker"),
        ("mira", "deleted files", "intent"),
        ("mira", "started a release", "digits"),
    } <= told
    assert [act["at"] for act in acts] == sorted((act["at"] for act in acts), reverse=True)
    narrow = {"model": "digits", "person": "JONAS"}
    only = viewer.get("/api/audit", params=narrow).json()["acts"]
    assert {act["model"] for act in only} == {"digits"}
    rows = list(csv.DictReader(io.StringIO(viewer.get("/audit.csv", params=narrow).text)))
    assert [row["source"] for row in rows] == [act["source"] for act in only]
    assert len(viewer.get("/audit.jsonl", params=narrow).text.splitlines()) == len(only)
    assert viewer.get("/api/audit", params={"from": "2020-01-01", "to": "2020-02-01"}).json()["acts"] == []
    assert viewer.get("/api/audit", params={"from": "yesterday"}).status_code == 422


def test_a_run_leads_to_its_release(viewer: httpx.Client) -> None:
    """The tab of a run in Airflow shows this address."""
    answer = viewer.get("/runs/model_release/digits-5")
    assert answer.headers["location"].endswith("/slipway/models/digits/versions/5")
    assert "This run is not a release" in viewer.get("/runs/notification_delivery/scheduled__2026").text


def test_airflow_is_told_of_the_pages(filled_site: AirflowSite) -> None:
    """An entry in its navigation, and a tab of each run."""
    with filled_site.client("admin") as client:
        plugins = client.get(f"{filled_site.url}/api/v2/plugins").json()["plugins"]
    views = next(one for one in plugins if one["name"] == "slipway")["external_views"]
    assert {(one["destination"], one["href"]) for one in views} == {
        ("nav", "/slipway/"),
        ("dag_run", "/slipway/runs/{DAG_ID}/{RUN_ID}"),
    }


def _json(value: object) -> str:
    return json.dumps(value)
