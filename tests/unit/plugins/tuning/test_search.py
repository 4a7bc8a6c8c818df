"""The search without a server: its order, its end, hopeless trials, and how it goes on after it was killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slipway.tuning.search import SettingSearch, Wanted
from slipway.tuning.suggestions import is_hopeless, next_setting
from slipway_core.errors import BenchmarkRefusedError, LoadRefusedError, TimedOutError
from slipway_core.tuning.settings import Setting
from slipway_core.tuning.trials import Point, Trial, TuningPlan
from tests.support.tuning.plans import make_plan, point, trial

SEARCH = {"max_queue_delays_us": [0, 500, 5000], "preferred_batch_sizes": [[], [8]], "instances": [1, 2]}


class Killed(BaseException):
    """What ends a task at once."""


class FakeEvidence:
    """The trials in memory."""

    def __init__(self) -> None:
        self.written: dict[int, Trial] = {}

    def trials(self) -> list[Trial]:
        return [self.written[number] for number in sorted(self.written)]

    def write_trial(self, trial: Trial) -> None:
        self.written[trial.number] = Trial.from_bytes(trial.to_bytes(), "a trial")


class FakeServer:
    """A staging server whose latency follows from the setting; one that is refused does not load."""

    def __init__(self, p95_ms: Callable[[Setting], float], refused: Setting | None = None) -> None:
        self.p95_ms = p95_ms
        self.refused = refused
        self.loaded: Setting | None = None
        self.measured: list[tuple[str, Setting]] = []
        self.killed_at: int | None = None

    def load(self, role: str, setting: Setting) -> str:
        if setting == self.refused:
            raise LoadRefusedError("it does not load")
        self.loaded = setting
        return f"digits_{role}"

    def unload(self) -> None:
        self.loaded = None

    def measure(self, wanted: Wanted) -> list[list[Point]]:
        assert self.loaded is not None
        if len(self.measured) == self.killed_at:
            self.killed_at = None
            raise Killed
        self.measured.append((wanted.folder, self.loaded))
        return [[point(self.p95_ms(self.loaded), wanted.first_round)]]


def latency(setting: Setting) -> float:
    """Two instances halve the latency; without a batch it is 20 ms, a delay adds to 4 ms."""
    delay = setting.max_queue_delay_us
    return (20.0 if delay is None else 4.0 + delay / 1000) / (setting.instances or 1)


def search_of(plan: TuningPlan, evidence: FakeEvidence, server: FakeServer) -> SettingSearch:
    """The search over both doubles."""
    doubles: Any = (evidence, server)
    return SettingSearch(plan, doubles[0], doubles[1], server.measure)


@pytest.fixture
def evidence() -> FakeEvidence:
    """A bucket without a trial."""
    return FakeEvidence()


def test_defaults_first_and_last_then_the_present_then_optuna(evidence: FakeEvidence) -> None:
    """No setting is tried twice but Triton's defaults; the budget of trials is kept; nothing stays loaded."""
    plan, server = make_plan(search=SEARCH, trials=6, rounds=2), FakeServer(latency)
    trials = search_of(plan, evidence, server).run()
    assert [one.kind for one in trials] == ["defaults", "present", *["search"] * 6, "defaults_again"]
    searched = [one.setting for one in trials[:-1]]
    assert len(set(searched)) == len(searched)
    assert set(searched[2:]) <= set(plan.space.settings())
    assert trials[-1].setting == plan.defaults
    assert server.loaded is None


def test_every_setting_is_tried_where_the_budget_allows(evidence: FakeEvidence) -> None:
    """Then the search ends, and the best of all is known."""
    plan, server = make_plan(search=SEARCH, trials=100, rounds=1), FakeServer(latency)
    trials = search_of(plan, evidence, server).run()
    assert {one.setting for one in trials} == {*plan.space.settings(), plan.present}


def test_the_time_of_all_trials_is_bounded(evidence: FakeEvidence) -> None:
    """The seconds are those in the bucket, so those of a try that was killed count too."""
    plan, server = make_plan(search=SEARCH, budget_s=25), FakeServer(latency)
    for number, setting in enumerate((plan.defaults, plan.present, Setting(instances=2))):
        kind: Any = ("defaults", "present", "search")[number]
        evidence.write_trial(trial(number, setting, 9.0, kind=kind))
    trials = search_of(plan, evidence, server).run()
    assert [one.kind for one in trials[3:]] == ["defaults_again"]


def test_a_killed_search_goes_on_with_the_same_trials(evidence: FakeEvidence) -> None:
    """Killed in the middle of a trial and run again, it ends with the trials of a search that nobody has killed."""
    plan = make_plan(search=SEARCH, trials=5, rounds=2, seed=3)
    whole = search_of(plan, FakeEvidence(), FakeServer(latency)).run()
    server = FakeServer(latency)
    server.killed_at = 7
    with pytest.raises(Killed):
        search_of(plan, evidence, server).run()
    assert server.loaded is None
    assert evidence.trials()[-1].state == "begun"
    again = search_of(plan, evidence, server).run()
    assert [(one.kind, one.setting, one.state) for one in again] == [
        (one.kind, one.setting, one.state) for one in whole
    ]


def test_a_hopeless_trial_ends_after_its_first_round(evidence: FakeEvidence) -> None:
    """It is worse than three quarters of those before it; the defaults are measured to their end whatever they cost."""
    search = {"max_queue_delays_us": [0, 500, 900_000], "preferred_batch_sizes": [[]], "instances": [1]}
    plan, server = make_plan(search=search, rounds=3, slo_p99_ms=10_000), FakeServer(latency)
    trials = search_of(plan, evidence, server).run()
    (slow,) = [one for one in trials if one.setting.max_queue_delay_us == 900_000]
    assert slow.state == "hopeless"
    assert len(slow.points) == 1
    assert "worse than three quarters" in slow.reason
    assert {one.state for one in trials if one.kind != "search"} == {"complete"}


@pytest.mark.parametrize(
    "error", [None, BenchmarkRefusedError("it fails requests"), TimedOutError("it does not keep up")], ids=str
)
def test_a_setting_that_fails_is_a_failed_trial(
    evidence: FakeEvidence, error: BenchmarkRefusedError | TimedOutError | None
) -> None:
    """One that the server does not load, that fails requests or does not keep up, is kept with the reason; the search
    goes on.
    """
    search = {"max_queue_delays_us": [], "instances": [1, 2]}
    bad = Setting(instances=2)
    plan, server = make_plan(search=search), FakeServer(latency, refused=bad if error is None else None)

    def measure(wanted: Wanted) -> list[list[Point]]:
        if server.loaded == bad and error is not None:
            raise error
        return server.measure(wanted)

    doubles: Any = (evidence, server)
    trials = SettingSearch(plan, doubles[0], doubles[1], measure).run()
    (failed,) = [one for one in trials if one.setting == bad]
    assert failed.state == "failed"
    assert failed.reason.startswith("it ")
    assert trials[-1].kind == "defaults_again"


def test_what_others_are_held_against_has_to_be_measured(evidence: FakeEvidence) -> None:
    """Where a measurement of the defaults does not end, the task does, and is tried again."""

    def measure(wanted: Wanted) -> list[list[Point]]:
        raise TimedOutError("it hangs")

    doubles: Any = (evidence, FakeServer(latency))
    with pytest.raises(TimedOutError):
        SettingSearch(make_plan(search=SEARCH), doubles[0], doubles[1], measure).run()


def test_the_same_trials_give_the_same_suggestion() -> None:
    """It depends on the seed and on what was measured, on nothing else."""
    plan = make_plan(search=SEARCH)
    trials = [trial(0, plan.defaults, 20.0), trial(1, Setting(max_queue_delay_us=500, instances=2), 3.0)]
    assert next_setting(plan, trials) == next_setting(plan, trials)
    tried = [trial(place, one, 9.0) for place, one in enumerate(plan.space.settings())]
    assert next_setting(plan, tried) is None
    left = next_setting(plan, tried[:-1])
    assert left == tried[-1].setting


def test_what_is_hopeless_is_told_by_the_trials_before() -> None:
    """Worse than three quarters of them is; two trials must have ended first."""
    plan = make_plan(search=SEARCH)
    settings = list(plan.space.settings())
    costs = (5.0, 10.0, 15.0, 40.0)
    before = [trial(place, settings[place], cost, cost) for place, cost in enumerate(costs)]
    assert is_hopeless(plan, before, [30.0])
    assert not is_hopeless(plan, before, [14.0])
    assert not is_hopeless(plan, before[:1], [30.0])
