"""The live document of a canary in the store: written over by its watch, taken over by the next one, read by pages."""

from __future__ import annotations

from dataclasses import replace

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.live_writer import LiveObject
from slipway.read_model.reader import ReadModel
from slipway_core.bucket_layout import live_key
from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.canary.totals import Totals
from slipway_core.metrics.samples import Sample, Window
from slipway_core.read_model.live_fold import Watched
from slipway_core.spec.rollout.plan import CanaryPlan, RolloutStep
from tests.support.read_model.asking import asked
from tests.support.read_model.histories import at

PLAN = CanaryPlan((RolloutStep(weight=5, bake_s=60), RolloutStep(weight=50, bake_s=60)))


def watched() -> Watched:
    """Return what a watch tells after a window."""
    judge = CanaryJudge(AnalysisPolicy())
    judge.begin_step(5, 60.0)
    verdict = judge.observe(Window(10.0, Sample(90, 0), Sample(10, 0)))
    return Watched("digits", 3, "digits-3", 0, 5, 10.0, False, "", "", verdict, Totals())


def test_windows_of_earlier_watches_are_kept(store: ModelStoreHook) -> None:
    """A step's watch goes on with the windows of the one before; another release begins with none."""
    told = watched()
    first = LiveObject(store, PLAN)
    first.write(told, [(told.verdict, at(0)), (told.verdict, at(1))], at(1))
    first.write(told, [], at(2))
    LiveObject(store, PLAN).write(replace(told, step=1), [(told.verdict, at(3))], at(3))
    document = asked(lambda: ReadModel(store).live("digits"))
    assert document is not None
    assert [window.at for window in document.windows] == [at(0), at(1), at(3)]
    assert (document.step, document.written_at) == (2, at(3))
    LiveObject(store, PLAN).write(replace(told, release_id="digits-3-2"), [(told.verdict, at(9))], at(9))
    again = asked(lambda: ReadModel(store).live("digits"))
    assert again is not None
    assert len(again.windows) == 1


def test_what_somebody_else_has_put_there_is_written_over(store: ModelStoreHook) -> None:
    """It is for pages alone: a document that cannot be read is no document."""
    store.write(live_key("digits"), b"{")
    assert asked(lambda: ReadModel(store).live("digits")) is None
    told = watched()
    LiveObject(store, PLAN).write(told, [(told.verdict, at(0))], at(0))
    assert asked(lambda: ReadModel(store).live("digits")) is not None


def test_a_write_that_was_given_up_and_ended_all_the_same_tells_no_window_twice(
    store: ModelStoreHook,
) -> None:
    """The watch tells its windows again, since it does not know what became of them."""
    told, one = watched(), LiveObject(store, PLAN)
    one.write(told, [(told.verdict, at(0)), (told.verdict, at(1))], at(1))
    one.write(told, [(told.verdict, at(0)), (told.verdict, at(1)), (told.verdict, at(2))], at(2))
    document = asked(lambda: ReadModel(store).live("digits"))
    assert document is not None
    assert [window.at for window in document.windows] == [at(0), at(1), at(2)]
