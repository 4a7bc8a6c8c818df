"""The commands with which a person does something: what Airflow is asked for, and what is refused before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.airflow_api.fake_api import RUN
from tests.support.cli.calls import Call
from tests.support.cli.documents import OPEN, document, line, resting, view
from tests.support.cli.server import FakeClock, FakeSlipway


@pytest.fixture(autouse=True)
def digits(server: FakeSlipway) -> FakeSlipway:
    """A server on which version 3 of `digits` is in its canary."""
    server.models["digits"] = document()
    server.views["digits", 3] = view()
    return server


def started(server: FakeSlipway) -> tuple[str, str | None, dict[str, Any]]:
    """Return workflow, run id and parameters of the one run that was started."""
    [(method, path, body)] = server.writes
    assert method == "POST"
    return path.split("/")[4], body["dag_run_id"], body["conf"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("release", "digits", "4"), ("model_release", "digits-4", {"model": "digits", "version": 4})),
        (
            ("release", "digits", "4", "--force", "--ask"),
            (
                "model_release",
                "digits-4",
                {"model": "digits", "version": 4, "force": True, "wait_for_approval": True},
            ),
        ),
        (
            ("rollback", "digits", "--reason", "bad", "--no-wait"),
            ("model_rollback", "digits-rollback", {"model": "digits", "reason": "bad"}),
        ),
        (
            ("rollback", "digits", "-m", "bad", "--to", "1", "--emergency", "--no-wait"),
            (
                "model_rollback",
                "digits-rollback-to-1",
                {"model": "digits", "reason": "bad", "version": 1, "emergency": True},
            ),
        ),
        (("pause", "digits"), ("canary_pause", "digits-pause", {"model": "digits", "action": "pause"})),
        (
            ("reject", "digits", "4", "-m", "bad data", "--evidence", "s3://b/page.html"),
            (
                "version_rejection",
                "digits-4-reject",
                {
                    "model": "digits",
                    "version": 4,
                    "action": "reject",
                    "reason": "bad data",
                    "evidence": "s3://b/page.html",
                },
            ),
        ),
        (
            ("freeze", "--until", "4h", "-m", "incident"),
            (
                "release_freeze",
                "all-freeze",
                {"action": "freeze", "until": "2026-03-01T16:00:00+00:00", "reason": "incident"},
            ),
        ),
        (
            ("freeze", "--model", "digits", "--until", "2026-12-28T08:00+01:00", "-m", "holidays"),
            (
                "release_freeze",
                "digits-freeze",
                {
                    "model": "digits",
                    "action": "freeze",
                    "until": "2026-12-28T07:00:00+00:00",
                    "reason": "holidays",
                },
            ),
        ),
        (("thaw", "-m", "over"), ("release_freeze", "all-thaw", {"action": "thaw", "reason": "over"})),
        (
            ("override", "digits", "3", "-m", "it mends the incident"),
            (
                "release_freeze",
                "digits-3-override",
                {"model": "digits", "version": 3, "action": "override", "reason": "it mends the incident"},
            ),
        ),
        (
            ("pin", "digits", "2", "-m", "audit"),
            (
                "version_pin",
                "digits-2-pin",
                {"model": "digits", "version": 2, "action": "pin", "reason": "audit"},
            ),
        ),
        (
            ("close-finding", "digits", "3-published", "-m", "known"),
            (
                "finding_close",
                "digits-close-3-published",
                {"model": "digits", "finding": "3-published", "reason": "known"},
            ),
        ),
        (("benchmark", "digits"), ("model_benchmark", "digits-benchmark", {"model": "digits"})),
        (
            ("benchmark", "digits", "--version", "2"),
            ("model_benchmark", "digits-2-benchmark", {"model": "digits", "version": 2}),
        ),
    ],
)
def test_an_act_starts_its_workflow_under_a_name_that_says_what_it_does(
    server: FakeSlipway, call: Call, arguments: tuple[str, ...], expected: tuple[str, str, dict[str, Any]]
) -> None:
    """One run, with the workflow's own parameters; the sentence names it."""
    called = call(*arguments)
    assert (called.code, called.err) == (0, "")
    assert started(server) == expected
    assert f"started as the run {expected[1]}" in called.out


def test_a_name_that_is_taken_gets_a_number(server: FakeSlipway, call: Call) -> None:
    """The second attempt is `digits-4-2`."""
    server.runs["digits-4"] = {**RUN, "dag_run_id": "digits-4", "state": "failed"}
    call("release", "digits", "4")
    assert started(server)[1] == "digits-4-2"


def test_a_release_that_is_under_way_is_not_started_twice(server: FakeSlipway, call: Call) -> None:
    """The error names the run, and how to watch it."""
    server.runs["digits-4"] = {**RUN, "dag_run_id": "digits-4", "state": "queued"}
    called = call("release", "digits", "4")
    assert (called.code, server.writes) == (1, [])
    assert "the run digits-4 is already" in called.err
    assert "next:     slipway get digits -w" in called.err


@pytest.mark.parametrize(
    ("arguments", "told", "next_command"),
    [
        (("release", "digits", "3"), "already being released", "slipway get digits -w"),
        (("release", "digits", "2"), "Version 2 is live", "slipway release digits 2 --force"),
        (("resume", "digits"), "not paused", "slipway pause digits"),
        (("unreject", "digits", "3", "-m", "fine"), "is not rejected", "slipway get digits"),
        (("unpin", "digits", "2", "-m", "fine"), "is not pinned", "slipway pin digits 2"),
        (("approve", "digits"), "has no open approval", "slipway get digits"),
        (("decline", "digits", "-m", "bad"), "has no open approval", "slipway get digits"),
        (("rollback", "digits", "--to", "9", "-m", "bad"), "never promoted", "slipway release digits 9"),
    ],
)
def test_what_makes_no_sense_now_is_refused_with_the_next_command(
    server: FakeSlipway, call: Call, arguments: tuple[str, ...], told: str, next_command: str
) -> None:
    """Exit code 1, nothing is started, and the error says what to type instead."""
    called = call(*arguments)
    assert (called.code, server.writes) == (1, [])
    assert told in called.err
    assert f"next:     {next_command}" in called.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("reject", "digits", "3", "-m", "no"), "a reason is needed"),
        (("reject", "digits", "3", "-m", "no"), "next:     slipway reject --help"),
        (("freeze", "--until", "tomorrow", "-m", "incident"), "not a time at which a freeze can end"),
        (("freeze", "--until", "400d", "-m", "incident"), "give it as --until 30m"),
        (("freeze", "--until", "2026-12-28T08:00", "-m", "incident"), "no time zone"),
        (("release", "digits", "4", "--wait", "--timeout", "soon"), "is not a duration"),
    ],
)
def test_what_is_filled_in_wrongly_is_told_before_anything_is_asked(
    server: FakeSlipway, call: Call, arguments: tuple[str, ...], told: str
) -> None:
    """Exit code 2, and the server is asked nothing."""
    called = call(*arguments)
    assert called.code == 2
    assert server.api.calls == []
    assert told in called.err


def test_a_workflow_that_refuses_ends_the_command_with_its_reason(
    server: FakeSlipway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of the run is what was found; exit code 1."""
    airflow = server._airflow

    def refusing(method: str, path: str, body: Any) -> tuple[int, Any]:
        status, document = airflow(method, path, body)
        if method == "POST":
            document |= {"state": "failed", "note": "too late: the version was promoted"}
        return status, document

    monkeypatch.setattr(server, "_airflow", refusing)
    called = call("pause", "digits")
    assert called.code == 1
    assert "found:    too late: the version was promoted" in called.err


def test_an_approval_is_answered_where_the_run_waits(server: FakeSlipway, call: Call) -> None:
    """The question of the release's run gets the answer and the comment."""
    server.models["digits"] = document(open_release=OPEN.model_copy(update={"waits_for_approval": "canary"}))
    server.questions = [question("rollout.approve")]
    called = call("approve", "digits", "-m", "seen the report")
    assert called.code == 0
    [(method, path, body)] = server.writes
    assert (method, path) == (
        "PATCH",
        "/api/v2/dags/model_release/dagRuns/digits-3/taskInstances/rollout.approve/-1/hitlDetails",
    )
    assert body == {"chosen_options": ["Approve"], "params_input": {"comment": "seen the report"}}
    call("decline", "digits", "-m", "class 7 is worse")
    assert server.writes[-1][2]["chosen_options"] == ["Reject"]


def test_who_started_a_release_cannot_approve_it_where_another_person_must(
    server: FakeSlipway, call: Call
) -> None:
    """Four eyes, told before Airflow is asked."""
    release = OPEN.model_copy(update={"waits_for_approval": "canary"})
    server.models["digits"] = document(open_release=release)
    found = view(open_now=release)
    required = found.required
    assert required is not None
    server.views["digits", 3] = found.model_copy(
        update={"required": required.model_copy(update={"by_other": True})}
    )
    called = call("approve", "digits")
    assert (called.code, server.writes) == (1, [])
    assert "another person must approve it" in called.err


def test_an_abort_marks_the_run_as_failed(server: FakeSlipway, call: Call) -> None:
    """Its teardowns take the users back, and are told the reason, which is the run's note as well."""
    server.runs["digits-3"] = {**RUN, "dag_run_id": "digits-3", "conf": {"model": "digits"}}
    called = call("abort", "digits", "-m", "wrong data set")
    assert called.code == 0
    assert server.writes == [
        (
            "POST",
            "/api/v2/dags/model_release/dagRuns/digits-3/taskInstances/admit/xcomEntries",
            {"key": "stop_reason", "value": "wrong data set"},
        ),
        (
            "PATCH",
            "/api/v2/dags/model_release/dagRuns/digits-3",
            {"state": "failed", "note": "Aborted: wrong data set"},
        ),
    ]


def test_a_person_without_the_right_is_told_so(server: FakeSlipway, call: Call) -> None:
    """Exit code 4."""
    server.refusals["/dagRuns"] = (403, {"detail": "Forbidden"})
    called = call("pause", "digits")
    assert called.code == 4
    assert "403 Forbidden" in called.err


def test_a_rollback_goes_on_where_the_read_model_does_not_answer(server: FakeSlipway, call: Call) -> None:
    """Taking users back waits for no document."""
    server.refusals["/slipway/api"] = (503, {"detail": "The store does not answer."})
    called = call("rollback", "digits", "-m", "bad", "--no-wait")
    assert called.code == 0
    assert started(server)[0] == "model_rollback"


def test_another_act_waits_for_the_read_model(server: FakeSlipway, call: Call) -> None:
    """Exit code 3, and nothing is started."""
    server.refusals["/slipway/api"] = (503, {"detail": "The store does not answer."})
    called = call("release", "digits", "4")
    assert (called.code, server.writes) == (3, [])


def test_an_act_for_programs_names_its_run(server: FakeSlipway, call: Call) -> None:
    """JSON on standard output alone; sentences go to standard error."""
    called = call("release", "digits", "4", "-o", "json")
    assert json.loads(called.out) == {
        "act": "release",
        "dag_id": "model_release",
        "run_id": "digits-4",
        "message": "Release: started as the run digits-4.",
    }
    assert "started as the run" in called.err


def test_a_rollback_says_when_no_user_meets_the_version_any_more(
    server: FakeSlipway, call: Call, clock: FakeClock
) -> None:
    """It waits for the observed weight 0, names it, and then waits for the run."""
    ended = {**RUN, "dag_run_id": "digits-rollback", "state": "running"}

    def begins() -> None:
        server.runs["digits-rollback"] = ended

    def is_safe() -> None:
        safe = line(3, outcome="open", standing="", weight_0_at=clock.at, finished_at=None)
        server.models["digits"] = document(versions=(safe, line(2)))

    def is_over() -> None:
        server.runs["digits-rollback"] = {**ended, "state": "success", "note": "digits is at version 2 again"}

    clock.then = [begins, is_safe, is_over]
    airflow = server._airflow

    def running(method: str, path: str, body: Any) -> tuple[int, Any]:
        status, document = airflow(method, path, body)
        if method == "POST":
            document["state"] = "running"
        return status, document

    server._airflow = running  # type: ignore[method-assign]
    called = call("rollback", "digits", "-m", "bad")
    assert called.code == 0
    assert "0 % observed on version 3: it gets no new requests" in called.out
    assert called.out.index("0 % observed") < called.out.index("version 2 has all users")


def test_a_rollback_that_fails_says_whether_users_are_safe(
    server: FakeSlipway, call: Call, clock: FakeClock
) -> None:
    """Exit code 1; that 0 % was observed is in the error."""
    safe = line(3, outcome="open", standing="", weight_0_at=clock.at, finished_at=None)
    server.models["digits"] = document(versions=(safe, line(2)))
    airflow = server._airflow

    def failing(method: str, path: str, body: Any) -> tuple[int, Any]:
        status, document = airflow(method, path, body)
        if method == "POST":
            document |= {"state": "failed", "note": "the stable version does not start"}
        return status, document

    server._airflow = failing  # type: ignore[method-assign]
    called = call("rollback", "digits", "-m", "bad")
    assert called.code == 1
    assert "but the version gets no new requests" in called.err
    assert "the stable version does not start" in called.err


def question(task_id: str) -> dict[str, Any]:
    """Return a question as Airflow lists it."""
    from tests.support.airflow_api.fake_api import TASK_INSTANCE

    return {
        "task_instance": {**TASK_INSTANCE, "task_id": task_id, "dag_run_id": "digits-3"},
        "options": ["Approve", "Reject"],
        "subject": "Release digits version 3 to live traffic?",
        "created_at": "2026-03-01T11:59:00Z",
        "multiple": False,
        "params": {},
        "assigned_users": [],
        "response_received": False,
    }


def test_resting_models_have_nothing_to_pause(server: FakeSlipway, call: Call) -> None:
    """The error names the model and how to look at it."""
    server.models["digits"] = resting()
    called = call("pause", "digits")
    assert called.code == 1
    assert "No release of digits is under way" in called.err
