"""A name that nobody knows gets the nearest one that is known; version and completion of the command itself."""

from __future__ import annotations

import subprocess

import pytest

from slipway.workflows import DAG_IDS
from tests.support.cli.calls import Call
from tests.support.cli.documents import document, view
from tests.support.cli.server import FakeSlipway
from tests.support.dags.workflows import FILES

# What Airflow answers to a model that is not in the form's list: jsonschema's own text, with the whole schema.
TRACE = (
    "Invalid input for param model: 'digots' is not one of ['digits', 'pets']\n\nFailed validating 'enum' in schema:\n"
    "    {'enum': ['digits', 'pets'], 'type': 'string'}\n\nOn instance:\n    'digots'"
)


@pytest.fixture(autouse=True)
def models(server: FakeSlipway) -> FakeSlipway:
    """Two models; version 3 of digits is in its canary."""
    nothing = {
        "live_version": None,
        "live_since": None,
        "previous_version": None,
        "open_release": None,
        "last": None,
    }
    server.models = {"digits": document(), "pets": document(model="pets", versions=(), **nothing)}
    server.views["digits", 3] = view()
    return server


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "digots"),
        ("get", "digots", "3"),
        ("get", "digots", "-w"),
        ("explain", "digots", "3"),
        ("status", "digots"),
        ("logs", "digots"),
        ("release", "digots", "1"),
        ("rollback", "digots", "--reason", "wrong labels"),
        ("pause", "digots", "--reason", "looking"),
        ("resume", "digots"),
        ("approve", "digots", "--reason", "seen it all"),
        ("abort", "digots", "--reason", "wrong data"),
        ("reject", "digots", "3", "--reason", "wrong data"),
        ("freeze", "--model", "digots", "--until", "4h", "--reason", "incident"),
        ("pin", "digots", "3", "--reason", "audit of May"),
        ("tune", "digots", "3"),
        ("close-finding", "digots", "3-latency", "--reason", "new hardware"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_each_command_says_the_nearest_model(
    arguments: tuple[str, ...], call: Call, server: FakeSlipway
) -> None:
    """The error says what is not there, what is near it, and what there is; no schema, and exit code 1."""
    server.refusals["/dagRuns"] = (400, {"detail": TRACE})
    called = call(*arguments)
    assert called.code == 1
    assert "there is no model 'digots' (did you mean digits?)" in called.err
    assert "a known model: digits, pets" in called.err
    assert "Failed validating" not in called.err


def test_names_are_read_only_where_a_command_is_refused(call: Call, server: FakeSlipway) -> None:
    """What works asks for nothing more than before."""
    assert call("get", "digits").code == 0
    assert not [path for _, path, _ in server.api.calls if path.rstrip("/").endswith("/slipway/api/models")]


def test_a_server_that_has_no_list_leaves_the_error_as_it_is(call: Call, server: FakeSlipway) -> None:
    """The names are a help, and what was wrong is said without them as well."""
    server.models = {}
    server.refusals["/slipway/api/models"] = (404, {"detail": "Nothing is known of it."})
    called = call("get", "digots")
    assert called.code == 1
    assert "there is no model 'digots'" in called.err
    assert "did you mean" not in called.err


def test_a_version_that_nobody_knows_is_told_with_those_that_are_known(call: Call) -> None:
    """The versions are named, and the nearest of them."""
    called = call("explain", "digits", "33")
    assert called.code == 1
    assert "digits version 33 is unknown (did you mean 3?)" in called.err
    assert "a known version: " in called.err


def test_the_workflows_that_near_names_are_sought_among_are_those_of_the_project() -> None:
    """`logs --dag` knows every DAG."""
    assert {f"{workflow}.py" for workflow in DAG_IDS} == set(FILES)


@pytest.mark.parametrize(
    ("typed", "told"),
    [(("relase", "digits", "1"), "release"), (("release", "digits", "1", "--resaon", "x"), "--reason")],
)
def test_a_mistyped_command_or_option_gets_the_nearest(typed: tuple[str, ...], told: str, call: Call) -> None:
    """Exit code 2, and what was probably meant."""
    called = call(*typed)
    assert called.code == 2
    assert told in called.err


def test_the_command_says_its_version(call: Call) -> None:
    """One line, without a server."""
    called = call("--version")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("slipway ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_written_for_each_shell(shell: str, call: Call, server: FakeSlipway) -> None:
    """A script that calls this command, made without a server; bash finds no fault in its own."""
    called = call("completion", shell)
    assert (called.code, called.err) == (0, "")
    assert "_SLIPWAY_COMPLETE=complete_" + shell in called.out
    assert server.api.calls == []
    if shell == "bash":
        checked = subprocess.run(
            ["/bin/bash", "-n"], input=called.out, text=True, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")
