"""The commands that show something."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
import yaml

from slipway_core.read_model.documents import FindingLine, FreezeLine
from tests.support.cli.calls import Call
from tests.support.cli.documents import NOW, OPEN, ago, document, line, live, refused_view, resting, view
from tests.support.cli.server import FakeClock, FakeSlipway

LIST = """\
MODEL   LIVE     IN FLIGHT                     LAST RELEASE
digits  2 (1 h)  version 3: step 2 of 3, 50 %  version 2 promoted
broken  ?        cannot be read: no record
pets    none                                   version 3 refused by validation
"""
TREE = """\
Model        digits
Live         version 2, since 1 h
Released by  admin
Before       version 1
In flight    version 3: step 2 of 3, 50 %

digits
├── ● version 3  releasing  run digits-3, started by admin, 2 min ago
│   ├── revisions
│   │   ├── candidate version 3    set 50 %    observed 50 %   in the last window 118 requests, 1 error, p99 3.9 ms
│   │   └── stable    version 2    set 50 %    observed 50 %   in the last window 120 requests, 0 errors, p99 3.2 ms
│   ├── steps
│   │   ├── ✔ convert  12 s
│   │   ├── ✔ validation  3 s
│   │   ├── ✔ canary 20 %  9 s
│   │   ├── ▶ canary 50 %  ← here  4 s of 8 s, at most 1 min
│   │   ├── ○ canary 99 %
│   │   └── ○ promote
│   ├── verdict  inconclusive  too little was seen
│   │   ├── Evidence against the candidate: 0.6 of 100 (more errors than stable 0.8, slower than stable 0.4)
│   │   ├── Proof of being as good: 12 of 20 needed
│   │   └── Users have sent the candidate 1,203 requests; 1 of at most 50 ended with an error
│   └── next decision in 4 s
└── versions
    ├── 3    open        2 min ago
    ├── 2    promoted    live  1 h ago
    └── 1    promoted    2 d ago
"""


def lines_of(text: str) -> list[str]:
    """Return the lines without the spaces that fill a table."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.fixture
def busy(server: FakeSlipway) -> FakeSlipway:
    """A server on which version 3 of `digits` is in its canary."""
    server.models["digits"] = document()
    server.views["digits", 3] = view()
    server.live["digits"] = live()
    return server


def test_models_are_listed_with_what_is_live_and_in_flight(server: FakeSlipway, call: Call) -> None:
    """A line a model; one that cannot be read says why."""
    server.models = {
        "digits": document(),
        "broken": "no record",
        "pets": resting(live_version=None, live_since=None, model="pets", versions=(), last=None).model_copy(
            update={"last": resting().last}
        ),
    }
    called = call("list")
    assert (called.code, called.err) == (0, "")
    assert lines_of(called.out) == lines_of(LIST)


def test_the_list_for_programs_is_the_documents_without_versions(server: FakeSlipway, call: Call) -> None:
    """JSON and YAML say the same; versions are in `get`."""
    server.models = {"digits": document(), "broken": "no record"}
    as_json = json.loads(call("list", "-o", "json").out)
    assert yaml.safe_load(call("list", "-o", "yaml").out) == as_json
    digits, broken = as_json["models"]
    assert (digits["live_version"], digits["open_release"]["weight_observed"]) == (2, 50)
    assert "versions" not in digits
    assert broken == {"model": "broken", "unreadable": "no record"}


def test_an_empty_project_is_told_how_to_begin(server: FakeSlipway, call: Call) -> None:
    """No model: the next command."""
    called = call("list")
    assert (called.code, "slipway init" in called.out) == (0, True)


def test_freezes_and_findings_are_told(server: FakeSlipway, call: Call) -> None:
    """A model's own beside it, one of every model above the table; one that is over is not told."""
    mine, over = freeze("olga", 4, "the sale"), freeze("ada", -1, "yesterday's")
    finding = FindingLine(name="2-inputs", check="inputs", version=2, summary="the inputs have drifted")
    server.models = {"digits": resting(freezes=(mine, over), findings=(finding,))}
    server.freezes = [freeze("ops", 1, "maintenance")]
    out = call("list").out
    assert "Every model is frozen by ops until 2026-03-01 13:00:00 UTC: maintenance" in out
    assert "frozen by olga until 2026-03-01 16:00:00 UTC; 1 open finding" in " ".join(out.split())
    assert "ada" not in out
    server.views["digits", 3] = refused_view()
    tree = call("get", "digits").out
    assert "by olga until 2026-03-01 16:00:00 UTC: the sale" in tree
    assert "2-inputs: the inputs have drifted" in tree


def test_a_narrow_terminal_cuts_no_note(
    server: FakeSlipway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notes of a model take several lines there, and no word of them is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    server.models = {"digits": resting(freezes=(freeze("olga", 4, "the sale"),))}
    assert {"frozen", "by", "olga", "until", "2026-03-01", "16:00:00", "UTC"} <= set(call("list").out.split())


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrow_terminal_cuts_no_outcome(
    width: int, busy: FakeSlipway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every letter of each cell is there, on as many lines as it takes."""
    last = line(3, outcome="refused", refused_by="validate")
    name = "a-model-with-a-long-name"
    busy.models[name] = resting(model=name, versions=(), last=None).model_copy(update={"last": last})
    monkeypatch.setenv("COLUMNS", "400")
    whole = call("list").out
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = call("list").out
    assert max(map(len, narrow.splitlines())) <= width
    assert "refused by validation" in whole
    assert sorted("".join(narrow.split())) == sorted("".join(whole.split()))


def test_what_may_be_old_is_said_to_be(busy: FakeSlipway, call: Call) -> None:
    """A server that cannot read its store shows what it knew; standard error says so."""
    busy.problem = "The object store does not answer since 12:00."
    for arguments in (("list",), ("get", "digits")):
        called = call(*arguments)
        assert called.code == 0
        assert "digits" in called.out
    assert "Note: The object store does not answer since 12:00." in call("list", "-o", "json").err


def freeze(by: str, hours: float, reason: str) -> FreezeLine:
    """Return a freeze that ends so many hours from now."""
    return FreezeLine(by=by, at=ago(days=1), until=NOW + timedelta(hours=hours), reason=reason)


def test_a_canary_is_shown_as_a_tree(busy: FakeSlipway, call: Call) -> None:
    """Revisions with both weights, steps with "here", verdict, evidence, next decision, versions."""
    called = call("get", "digits")
    assert (called.code, called.err) == (0, "")
    assert lines_of(called.out) == lines_of(TREE)


def test_a_model_for_programs_has_all_three_documents(busy: FakeSlipway, call: Call) -> None:
    """Model, release and the watch's document, as the read model has them."""
    found = json.loads(call("get", "digits", "-o", "json").out)
    assert found["model"]["versions"][0]["version"] == 3
    assert found["release"]["steps"][3]["state"] == "here"
    assert found["live"]["windows"][0]["candidate"]["requests"] == 118


def test_a_weight_that_is_not_observed_yet_is_seen_beside_the_one_that_is_set(
    busy: FakeSlipway, call: Call
) -> None:
    """Set 50, observed 20."""
    busy.live["digits"] = live(weight_observed=20)
    out = call("get", "digits").out
    assert "set 50 %    observed 20 %" in out
    assert "set 50 %    observed 80 %" in out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"waits_for_approval": "canary"}, "needs approval before the canary"),
        ({"paused": "ada: a look"}, "paused: ada: a look"),
        ({"held": "a freeze until Monday"}, "held: a freeze until Monday"),
    ],
)
def test_what_a_release_waits_for_is_said(
    busy: FakeSlipway, call: Call, changed: dict[str, str], told: str
) -> None:
    """An approval, a pause, a freeze."""
    release = document().open_release
    assert release is not None
    changed_release = release.model_copy(update=changed)
    busy.models["digits"] = document(open_release=changed_release)
    busy.views["digits", 3] = view(open_now=changed_release)
    del busy.live["digits"]
    assert told in call("get", "digits").out


def test_a_servers_text_cannot_command_the_terminal(busy: FakeSlipway, call: Call) -> None:
    """An escape in a reason reaches no terminal, in no form of output."""
    hostile = "\x1b]0;owned\x07\x1b[2Jgone\u202e"
    busy.models["digits"] = document(versions=(line(3, reason=hostile, triggered_by=hostile), line(2)))
    busy.views["digits", 3] = view(line(3, reason=hostile, triggered_by=hostile))
    for arguments in (("get", "digits"), ("get", "digits", "-o", "json"), ("get", "digits", "-o", "yaml")):
        out = call(*arguments).out
        assert out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert not {"\x1b", "\x07", "\u202e"} & set(call("explain", "digits", "3").out)


def test_a_refusal_is_explained_in_words(server: FakeSlipway, call: Call) -> None:
    """What, why, which gate, and the next command."""
    server.models["digits"], server.views["digits", 3] = resting(), refused_view()
    called = call("explain", "digits", "3", "--log")
    assert called.code == 0
    for told in (
        "digits version 3 was refused and goes no further.",
        "Why: accuracy 0.81 is below 0.9",
        "Run digits-3, started 2026-03-01 11:58:00 UTC by admin, took 1 min.",
        "It was rejected by its release, at validate",
        f"{server.api.url}/slipway/evidence/digits/3/digits-3/validation.html",
        "admin started it",
        "Next: slipway unreject digits 3",
    ):
        assert told in called.out


def test_of_the_librarys_pages_the_first_is_named(server: FakeSlipway, call: Call) -> None:
    """Data Docs lead to each other: `explain` names their list, and the others with --log alone."""
    folder = "models/digits/3/evidence/digits-3/great_expectations/"
    kept = (f"{folder}golden.html", f"{folder}golden.json", f"{folder}index.html")
    server.models["digits"] = resting()
    server.views["digits", 3] = refused_view().model_copy(update={"evidence": kept})
    called = call("explain", "digits", "3")
    assert "great_expectations/index.html" in called.out
    assert "golden" not in called.out
    assert "and 2 more files: --log" in called.out


def test_weight_0_and_nobody_are_told_apart(server: FakeSlipway, call: Call) -> None:
    """A rolled back version says when no new request was led to it, and then whether anybody was still on it."""
    drained = "The candidate has no users: 36 s after weight 0 its pods were gone."
    left = line(3, outcome="rolled_back", standing="", weight_0_at=ago(minutes=2), drained=drained)
    server.models["digits"] = document(versions=(left,), open_release=None)
    server.views["digits", 3] = refused_view().model_copy(update={"line": left})
    out = " ".join(call("explain", "digits", "3").out.split())
    assert f"2 min ago. {drained}" in out
    assert "Weight 0 was observed" in out


def test_a_canarys_verdict_is_explained_with_its_evidence(busy: FakeSlipway, call: Call) -> None:
    """The judge's words, what they mean, and how far the evidence has come."""
    out = " ".join(call("explain", "digits", "3").out.split())
    assert "INCONCLUSIVE. too little was seen" in out
    assert "Not enough data yet" in out
    assert "Evidence against the candidate: 0.6 of 100" in out


def test_the_dashboards_address_is_printed_alone(call: Call, server: FakeSlipway) -> None:
    """A script can open it."""
    assert call("dashboard").out == f"{server.api.url}/slipway/\n"
    assert call("dashboard", "digits").out == f"{server.api.url}/slipway/models/digits\n"


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        ((401, {"detail": "no"}), 4, "Check user name and password"),
        ((403, {"detail": "You may not read this.", "remedy": "Ask Ada."}), 4, "next:     Ask Ada."),
        ((500, {"detail": "oh"}), 3, "500 oh"),
        ((503, {"detail": "The store does not answer."}), 3, "503 The store does not answer."),
        ((200, ["no document"]), 3, "is not Slipway"),
        (
            (200, {"models": [{"model": "digits", "versions": "none"}]}),
            1,
            "install the same version of this command",
        ),
    ],
)
def test_each_fault_of_a_server_has_its_exit_code(
    server: FakeSlipway, call: Call, answer: tuple[int, object], code: int, told: str
) -> None:
    """4 not allowed, 3 no answer, 1 an answer that cannot be used; never a traceback."""
    server.refusals["/slipway/api"] = answer
    called = call("list")
    assert (called.code, called.out) == (code, "")
    assert told in called.err
    assert "Traceback" not in called.err


def test_a_document_that_is_being_made_is_waited_for(busy: FakeSlipway, call: Call, clock: FakeClock) -> None:
    """A server that has just started folds it from the record, which takes seconds."""
    made = "The model 'digits' cannot be shown: its document is being rebuilt from its records."
    busy.refusals["/slipway/api/models"] = (503, {"detail": made})
    clock.then = [lambda: None, busy.refusals.clear]
    assert call("get", "digits").code == 0
    busy.refusals["/slipway/api/models"] = (503, {"detail": made, "remedy": "try again in a minute"})
    called = call("get", "digits")
    assert called.code == 3
    assert "next:     try again in a minute" in called.err


def test_a_wrong_password_is_said_and_not_shown(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 4; the password is in no message."""
    monkeypatch.setenv("SLIPWAY_PASSWORD", "hunter2")
    called = call("list")
    assert called.code == 4
    assert "hunter2" not in called.err + called.out


def test_a_server_that_is_down_is_code_3(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address and where it is from are named."""
    monkeypatch.setenv("SLIPWAY_AIRFLOW_URL", "http://127.0.0.1:1")
    called = call("list")
    assert called.code == 3
    assert "http://127.0.0.1:1" in called.err
    assert "check the address" in called.err


def test_an_address_that_is_none_is_code_2(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheme is missing."""
    monkeypatch.setenv("SLIPWAY_AIRFLOW_URL", "airflow.example.com")
    called = call("list")
    assert called.code == 2
    assert "is not the address of a server" in called.err


@pytest.mark.parametrize(
    "arguments", [("get",), ("frobnicate",), ("get", "digits", "--nonsense"), ("list", "-o", "xml")]
)
def test_a_wrong_command_line_is_code_2(call: Call, arguments: tuple[str, ...]) -> None:
    """Nothing is asked of the server."""
    called = call(*arguments)
    assert called.code == 2
    assert called.err


def test_no_colours_in_a_pipe_or_where_they_are_not_wanted(busy: FakeSlipway, call: Call) -> None:
    """No escape sequence at all."""
    assert "\x1b" not in call("get", "digits", "--no-color").out


def test_the_first_lines_say_what_the_record_says_and_not_an_older_document(
    busy: FakeSlipway, call: Call
) -> None:
    """A model's document may be behind the record of its release by a moment."""
    waits = OPEN.model_copy(update={"step": 0, "waits_for_approval": "canary"})
    busy.models["digits"] = document(open_release=waits)
    assert "In flight    version 3: step 2 of 3, 50 %" in call("get", "digits").out
