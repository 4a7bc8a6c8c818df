"""What no record knows: runs that wait, what is uploaded but cannot be released, and how old an answer is."""

from __future__ import annotations

import json

import pytest

from slipway_core.read_model.landed import Landed, LandedProblem, LandedVersion
from slipway_core.read_model.waiting import WaitingRun
from tests.support.airflow_api.fake_api import RUN
from tests.support.cli.calls import Call
from tests.support.cli.documents import ago, document, resting, view
from tests.support.cli.server import FakeClock, FakeSlipway

WAITS = WaitingRun(
    model="digits", version=4, run_id="digits-4", status="waiting for the scheduler", since=ago(seconds=9)
)
BROKEN = LandedProblem(
    model="digits",
    place="incoming/digits/5/",
    version=5,
    reason="incoming/digits/5/ready.json cannot be read: gzip",
    remedy="upload it without compression.",
)


@pytest.fixture(autouse=True)
def digits(server: FakeSlipway) -> FakeSlipway:
    """A server on which nothing of `digits` is under way."""
    server.models["digits"] = resting()
    server.views["digits", 3] = view(resting().versions[0])
    return server


def test_a_run_that_waits_is_shown(server: FakeSlipway, call: Call) -> None:
    """In the list, in the tree, in words and for scripts, each with what it waits for."""
    server.waiting = [WAITS]
    assert "v4: waiting for the scheduler, for 9 s" in " ".join(call("list").out.split())
    assert "v4: waiting for the scheduler, for 9 s" in call("get", "digits").out
    assert json.loads(call("get", "digits", "-o", "json").out)["waiting"][0]["run_id"] == "digits-4"
    assert "v4: waiting for the scheduler" in call("explain", "digits", "4").out
    assert "v4: waiting for the scheduler" in call("get", "digits", "4").out


def test_what_is_unusable_is_shown_with_what_to_do(server: FakeSlipway, call: Call) -> None:
    """Where its uploader looks first: the list, the model, the version."""
    server.unusable = [BROKEN]
    for asked in (("list",), ("get", "digits"), ("get", "digits", "5"), ("explain", "digits", "5")):
        said = " ".join(call(*asked).out.split())
        assert "version 5 landed, unusable: incoming/digits/5/ready.json cannot be read: gzip" in said
        assert "What to do: upload it without compression." in said
    found = json.loads(call("explain", "digits", "5", "-o", "json").out)
    assert found["unusable"][0]["version"] == 5


def test_a_version_of_which_nothing_is_known_is_still_an_error(call: Call) -> None:
    """Neither a record, nor a run, nor an upload."""
    called = call("explain", "digits", "9")
    assert called.code != 0
    assert "digits version 9 is unknown" in called.err


def test_what_has_not_landed_is_not_started(server: FakeSlipway, call: Call) -> None:
    """It is refused at once, with what has landed; Airflow is asked for nothing."""
    server.landed = Landed(model="digits", versions=(LandedVersion(version=4, is_complete=True),))
    called = call("release", "digits", "9")
    assert called.code != 0
    assert "version 9 of 'digits' is not uploaded" in called.err
    assert "uploaded: 4" in called.err
    assert server.writes == []
    assert call("release", "digits", "4").code == 0


def test_what_landed_unusable_is_not_started(server: FakeSlipway, call: Call) -> None:
    """The error says why and what to do."""
    server.landed = Landed(
        model="digits", versions=(LandedVersion(version=5, is_complete=True),), unusable=(BROKEN,)
    )
    called = call("release", "digits", "5")
    assert called.code != 0
    assert "gzip" in called.err
    assert "without compression" in called.err
    assert server.writes == []


def test_status_knows_of_a_release_that_no_record_has(
    server: FakeSlipway, call: Call, clock: FakeClock
) -> None:
    """It waits for the end of that one, and does not say that no version has been released."""
    server.models["digits"] = document(versions=(), open_release=None, last=None, live_version=None)
    server.waiting = [WAITS]
    now = call("status", "digits", "--no-wait")
    assert now.code == 0
    assert "v4: waiting for the scheduler" in now.out

    def begins() -> None:
        server.waiting, server.models["digits"] = [], resting()

    clock.then = [lambda: None, begins]
    ended = call("status", "digits")
    assert "v4: waiting for the scheduler" in ended.out + ended.err
    assert "ever released" not in ended.err
    assert "version 3: refused" in ended.err


def test_an_answer_says_its_age_where_it_is_not_new(server: FakeSlipway, call: Call) -> None:
    """Each command its own: the list and the tree come from two documents."""
    assert "ago" not in call("list").err
    server.age_s = 42.0
    for asked in (("list",), ("get", "digits")):
        assert "data is 42 s old" in call(*asked).err
    server.problem = "no answer for 12 s"
    assert "data is 42 s old: no answer for 12 s" in call("list").err


def test_no_act_is_refused_by_old_data(server: FakeSlipway, call: Call) -> None:
    """What holds or takes back is asked for without a document; what raises is not asked for at all."""
    server.models["digits"] = resting()
    server.stale = True
    called = call("release", "digits", "4")
    assert called.code != 0
    assert server.writes == []
    server.questions = [
        {
            "task_instance": {
                "dag_id": "model_release",
                "dag_run_id": "digits-4",
                "task_id": "approve",
                "map_index": -1,
            }
        }
    ]
    paused = call("pause", "digits", "--no-wait")
    assert paused.code == 0, paused.err
    assert "the current state is unknown" in paused.err
    assert len(server.writes) == 1


def test_an_act_asks_for_news(server: FakeSlipway, call: Call) -> None:
    """The document that may refuse it is at most a few seconds old."""
    call("pause", "digits")
    asked = [path for _, path, _ in server.api.calls if path.startswith("/slipway/api/models/digits")]
    assert asked
    assert all("most_age_s=3" in path for path in asked)
    assert RUN
