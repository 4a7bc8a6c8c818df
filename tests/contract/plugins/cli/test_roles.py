"""Each command against Airflow's own API server: what a stranger, a viewer and an operator may do with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway.cli import main
from slipway.cli.failures import ExitCode
from tests.support.cli.calls import Call, Called
from tests.support.examples import each_with_each
from tests.support.web.airflow_site import PASSWORD, AirflowSite
from tests.support.web.workflows import airflow_client, runs_of

pytestmark = pytest.mark.slow

LOOKING = (
    ("list",),
    ("get", "digits"),
    ("get", "digits", "3"),
    ("explain", "digits", "2", "--log"),
    ("status", "churn", "--version", "3"),
    ("status", "digits", "--no-wait"),
)
# Command line, workflow, run id.
ACTING: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("release", "digits", "6", "-m", "data of June"), "model_release", "digits-6"),
    (("rollback", "digits", "-m", "wrong labels", "--no-wait"), "model_rollback", "digits-rollback"),
    (("pause", "digits", "-m", "a look", "--no-wait"), "canary_pause", "digits-pause"),
    (
        ("reject", "digits", "6", "-m", "trained on test data", "--no-wait"),
        "version_rejection",
        "digits-6-reject",
    ),
    (
        ("unreject", "digits", "3", "-m", "the gate was wrong", "--no-wait"),
        "version_rejection",
        "digits-3-unreject",
    ),
    (
        ("freeze", "--model", "churn", "--until", "4h", "-m", "incident", "--no-wait"),
        "release_freeze",
        "churn-freeze",
    ),
    (
        ("thaw", "--model", "search-ranker", "-m", "it is over", "--no-wait"),
        "release_freeze",
        "search-ranker-thaw",
    ),
    (
        ("override", "search-ranker", "8", "-m", "mends the incident", "--no-wait"),
        "release_freeze",
        "search-ranker-8-override",
    ),
    (("pin", "churn", "3", "-m", "the audit", "--no-wait"), "version_pin", "churn-3-pin"),
    (("unpin", "digits", "4", "-m", "the paper is out", "--no-wait"), "version_pin", "digits-4-unpin"),
    (
        ("close-finding", "text-embed", "3-inputs", "-m", "known", "--no-wait"),
        "finding_close",
        "text-embed-close-3-inputs",
    ),
    (("tune", "churn", "3"), "model_tuning", "churn-3-tuning"),
    (("benchmark", "churn"), "model_benchmark", "churn-benchmark"),
)
WORKFLOWS = sorted({workflow for _, workflow, _ in ACTING})


def by_command(*commands: tuple[str, ...]) -> dict[str, tuple[tuple[str, ...]]]:
    """Return each command line as a test's argument, by its text."""
    return {" ".join(one): (one,) for one in commands}


@pytest.fixture
def call(
    airflow: AirflowSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Call the command as somebody: of `stranger`, or of one of the site's roles."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("SLIPWAY_AIRFLOW_URL", airflow.url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def run(role: str, *arguments: str) -> Called:
        capsys.readouterr()
        monkeypatch.setenv("SLIPWAY_USER", role)
        monkeypatch.setenv("SLIPWAY_PASSWORD", "made up" if role == "stranger" else PASSWORD)
        code = main.run(arguments)
        printed = capsys.readouterr()
        return Called(code, printed.out, printed.err)

    return run


def run_ids(airflow: AirflowSite) -> dict[str, set[str]]:
    """Return the runs that there are, by workflow."""
    return {workflow: {run["dag_run_id"] for run in runs_of(airflow, workflow)} for workflow in WORKFLOWS}


@pytest.mark.parametrize(
    ("arguments", "role"),
    each_with_each(by_command(*LOOKING, *(one[0] for one in ACTING)), ["stranger", "nobody"]),
)
def test_who_may_read_nothing_gets_code_4(call: Call, arguments: tuple[str, ...], role: str) -> None:
    """A wrong password, and a person without any role: nothing is shown, whatever is asked."""
    called = call(role, *arguments)
    assert (called.code, called.out) == (ExitCode.NOT_ALLOWED, "")
    assert called.err.startswith("Error: ")
    assert PASSWORD not in called.err


def test_a_token_that_airflow_did_not_make_is_a_strangers(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent once, and not replaced by a password."""
    (tmp_path / "token").write_text("made.up.token")
    monkeypatch.setenv("SLIPWAY_TOKEN_FILE", str(tmp_path / "token"))
    assert call("viewer", "list").code == ExitCode.NOT_ALLOWED


@pytest.mark.parametrize(("arguments", "role"), each_with_each(by_command(*LOOKING), ["viewer", "operator"]))
def test_who_may_read_sees(call: Call, arguments: tuple[str, ...], role: str) -> None:
    """A viewer and an operator alike."""
    called = call(role, *arguments)
    # On a busy machine what is shown may be some seconds old, which is said.
    notes = [one for one in called.err.splitlines() if not one.startswith("Note: data is ")]
    assert (called.code, notes) == (ExitCode.FINE, []), called.err + called.out
    assert called.out


@pytest.mark.parametrize("arguments", [one[0] for one in ACTING], ids=" ".join)
def test_a_viewer_starts_nothing(airflow: AirflowSite, call: Call, arguments: tuple[str, ...]) -> None:
    """Airflow refuses it: code 4, and no run exists that was not there before."""
    before = run_ids(airflow)
    called = call("viewer", *arguments)
    assert (called.code, called.out) == (ExitCode.NOT_ALLOWED, "")
    assert "403" in called.err
    assert run_ids(airflow) == before


@pytest.mark.parametrize(("arguments", "workflow", "run_id"), ACTING, ids=lambda one: str(one)[:40])
def test_an_operator_starts_the_workflow_under_the_own_name(
    airflow: AirflowSite, call: Call, arguments: tuple[str, ...], workflow: str, run_id: str
) -> None:
    """Airflow takes the parameters, and knows who asked: on that four eyes rest."""
    called = call("operator", *arguments, "-o", "json")
    assert called.code == ExitCode.FINE, called.err
    told = json.loads(called.out)
    assert (told["dag_id"], told["run_id"]) == (workflow, run_id)
    run = run_of(airflow, workflow, run_id)
    assert run["triggering_user_name"] == "operator"
    reason = arguments[arguments.index("-m") + 1] if "-m" in arguments else None
    assert run["note"] == reason


def test_an_abort_fails_the_run_for_an_operator_and_not_for_a_viewer(
    airflow: AirflowSite, call: Call
) -> None:
    """The run of the release under way, with the reason as its note; it ends when its teardowns have run."""
    with airflow_client(airflow, "admin") as client:
        body = {"dag_run_id": "digits-5", "logical_date": None, "conf": {"model": "digits", "version": 5}}
        client.post("/dags/model_release/dagRuns", json=body).raise_for_status()
    refused = call("viewer", "abort", "digits", "-m", "wrong data set")
    assert refused.code == ExitCode.NOT_ALLOWED
    assert run_of(airflow, "model_release", "digits-5")["note"] is None
    assert call("operator", "abort", "digits", "-m", "wrong data set").code == ExitCode.FINE
    assert run_of(airflow, "model_release", "digits-5")["note"] == "Aborted: wrong data set"


def test_what_airflow_refuses_as_wrong_is_told_in_its_words(call: Call) -> None:
    """A model without a release file is none of the form's."""
    called = call("operator", "freeze", "--model", "nobodys", "--until", "4h", "-m", "incident")
    assert called.code == ExitCode.REFUSED
    assert "nobodys" in called.err


def test_the_list_shows_the_house(call: Call) -> None:
    """Live versions, what is in flight, what waits for a person, what is held."""
    found = {one["model"]: one for one in json.loads(call("viewer", "list", "-o", "json").out)["models"]}
    assert found["digits"]["live_version"] == 4
    assert found["digits"]["open_release"]["weight_observed"] == 25
    shown = call("viewer", "list").out
    assert "version 12: waits for approval before the canary" in shown
    assert "version 8: held at 5 %" in shown
    assert "version 4 failed" in shown


def test_the_tree_shows_the_canary_and_its_evidence(call: Call) -> None:
    """From the real writers' documents, through the real API."""
    shown = call("viewer", "get", "digits").out
    for told in ("▶ canary 25 %  ← here", "Evidence against the candidate:", "observed 25 %", "stable"):
        assert told in shown


def test_a_refusal_is_explained_with_its_gate(call: Call) -> None:
    """What, why, and how it goes on."""
    shown = call("viewer", "explain", "digits", "3").out
    assert "accuracy 0.871 is below 0.9" in shown
    assert "slipway unreject digits 3" in shown


def run_of(airflow: AirflowSite, workflow: str, run_id: str) -> dict[str, Any]:
    """Return a run as Airflow's API has it."""
    return next(run for run in runs_of(airflow, workflow) if run["dag_run_id"] == run_id)
