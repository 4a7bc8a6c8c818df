"""The live tree, with a clock that waits for nobody."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from slipway.cli.invocation import Invocation
from slipway.cli.output import Format, Printer
from slipway.cli.settings import Flags
from slipway.cli.watching import watch_model
from slipway_core.errors import SlipwayError
from tests.support.cli.calls import Call
from tests.support.cli.documents import document, line, live, view
from tests.support.cli.server import FakeClock, FakeSlipway


@pytest.fixture(autouse=True)
def digits(server: FakeSlipway) -> FakeSlipway:
    """Version 3 is in its canary."""
    server.models["digits"] = document()
    server.views["digits", 3] = view()
    server.live["digits"] = live()
    return server


@pytest.fixture
def screen() -> Console:
    """A terminal that keeps what is written to it."""
    return Console(
        file=io.StringIO(), width=120, force_terminal=True, color_system=None, legacy_windows=False
    )


def invocation_of(screen: Console, clock: FakeClock, form: Format = Format.TABLE) -> Invocation:
    return Invocation(Flags(), Printer(form, console=screen), clock)


def written(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_the_tree_follows_the_release(
    call: Call, server: FakeSlipway, clock: FakeClock, screen: Console
) -> None:
    """Weight and steps change on the screen as they change on the server; the tree is asked for every two seconds."""

    def raised() -> None:
        server.live["digits"] = live(weight_intended=99, weight_observed=99)

    def promoted() -> None:
        over = line(3)
        server.models["digits"] = document(versions=(over, line(2)), open_release=None, live_version=3)
        server.views["digits", 3] = view(over)
        server.live.clear()

    clock.then = [raised, promoted]
    watch_model(invocation_of(screen, clock), "digits", None, 2.0, looks=3)
    shown = written(screen)
    assert shown.index("observed 50 %") < shown.index("observed 99 %") < shown.index("version 3  promoted")
    assert (clock.at - document().written_at).total_seconds() == 5


def test_a_silent_server_leaves_the_last_tree_with_a_line_that_says_so(
    call: Call, server: FakeSlipway, clock: FakeClock, screen: Console
) -> None:
    """Watching goes on, and shows the release again when the server is back."""

    def silent() -> None:
        server.refusals["/slipway/api"] = (503, {"detail": "The store does not answer."})

    clock.then = [silent, lambda: None, server.refusals.clear]
    watch_model(invocation_of(screen, clock), "digits", None, 2.0, looks=4)
    shown = written(screen)
    assert "No answer for 2 s" in shown
    assert "No answer for 4 s" in shown
    assert shown.rindex("next decision") > shown.rindex("No answer")


def test_a_person_who_loses_the_right_is_told_at_once(
    call: Call, server: FakeSlipway, clock: FakeClock, screen: Console
) -> None:
    """Only a silence is waited for."""

    def lost() -> None:
        server.refusals["/slipway/api"] = (403, {"detail": "You may not read this."})

    clock.then = [lost]
    with pytest.raises(SlipwayError, match="may not read"):
        watch_model(invocation_of(screen, clock), "digits", None, 2.0, looks=3)


def test_a_program_gets_one_line_for_each_change(
    call: Call, server: FakeSlipway, clock: FakeClock, screen: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON lines; what did not change is not repeated."""

    def raised() -> None:
        server.live["digits"] = live(weight_observed=99)

    clock.then = [lambda: None, raised]
    watch_model(invocation_of(screen, clock, Format.JSON), "digits", None, 2.0, looks=3)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["live"]["weight_observed"], second["live"]["weight_observed"]) == (50, 99)


def test_without_a_terminal_each_change_is_a_line_with_its_time(
    call: Call, server: FakeSlipway, clock: FakeClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe or CI gets no tree that is drawn over; what did not change, such as a count of requests, is no line."""

    def raised() -> None:
        server.live["digits"] = live(weight_observed=99)

    def silent() -> None:
        server.refusals["/models/digits"] = (503, {"detail": "The store does not answer."})

    def promoted() -> None:
        server.refusals.clear()
        over = line(3)
        server.models["digits"] = document(versions=(over, line(2)), open_release=None, live_version=3)
        server.views["digits", 3] = view(over)
        server.live.clear()

    pipe = Console(file=io.StringIO(), width=120, force_terminal=False)
    clock.then = [lambda: None, raised, silent, promoted]
    watch_model(invocation_of(pipe, clock), "digits", None, 2.0, looks=5)
    begun, more, none, over = capsys.readouterr().out.splitlines()
    assert begun == (
        "2026-03-01 12:00:00 UTC  live: version 2; version 3: step 2 of 3, 50 %; observed 50 %; verdict inconclusive"
    )
    assert more.startswith("2026-03-01 12:00:04 UTC")
    assert "observed 99 %" in more
    assert "no answer: " in none
    assert "live: version 3; nothing in flight; version 3 promoted" in over
