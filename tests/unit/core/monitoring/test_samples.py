"""From documents to samples: values by name, no series more than there should be, whatever a document holds."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from slipway_core.monitoring.families import FAMILIES
from slipway_core.monitoring.samples import EVERY_MODEL, Seen, samples
from slipway_core.read_model.documents import ModelDocument, VersionLine
from tests.support.monitoring.seen import NOW, ago, digits, every_metric, watch

Values = dict[tuple[str, ...], float]


def values(seen: Seen) -> Values:
    """Return the value of each series by its name and the values of its labels."""
    found = [((one.family.name, *one.labels.values()), one.value) for one in samples(seen)]
    assert len(dict(found)) == len(found), "a series is there twice"
    return dict(found)


def of(document: ModelDocument, **changed: object) -> Values:
    """Return the values of one model whose open release is changed."""
    release = document.open_release
    assert release is not None
    changed_document = document.model_copy(update={"open_release": release.model_copy(update=changed)})
    return values(Seen({"digits": changed_document}, NOW))


def test_each_metric_has_a_series_in_a_house_with_everything() -> None:
    """No metric is listed that nothing is ever told of."""
    assert {name for name, *_ in values(every_metric())} == {family.name for family in FAMILIES}


def test_what_is_live_and_what_became_of_releases() -> None:
    """The version is a value; every attempt is counted, not only the newest of a version."""
    found = values(every_metric())
    assert found["slipway_models",] == 2
    assert found["slipway_live_version", "digits"] == 1
    assert found["slipway_live_since_timestamp_seconds", "digits"] == ago(days=10, minutes=-60).timestamp()
    ended = {outcome: found["slipway_releases_total", "digits", outcome] for outcome in OUTCOMES}
    assert ended == {"promoted": 1, "rolled_back": 1, "refused": 0, "failed": 1, "cancelled": 0}
    assert found["slipway_last_release_outcome", "digits", "rolled_back"] == 1
    assert found["slipway_last_lead_time_seconds", "digits"] == 3600
    assert found["slipway_last_time_to_recover_seconds", "digits", "first_bad_answer"] == 12
    assert found["slipway_last_time_to_recover_seconds", "digits", "decision"] == 2


OUTCOMES = ("promoted", "rolled_back", "refused", "failed", "cancelled")


def test_where_a_release_stands() -> None:
    """Stage, weights as ratios, whom it waits for, and what its watch saw last."""
    found = values(every_metric())
    assert found["slipway_releases_in_flight", "digits"] == 1
    assert found["slipway_candidate_version", "digits"] == 3
    assert found["slipway_release_stage", "digits", "canary"] == 1
    assert found["slipway_candidate_weight_intended_ratio", "digits"] == 0.5
    assert found["slipway_release_waits", "digits", "approval"] == 0
    assert found["slipway_release_waits", "digits", "resume"] == 1
    assert found["slipway_release_waits", "digits", "hold"] == 1
    assert found["slipway_evidence", "digits"] == 3.5
    assert found["slipway_candidate_exposure_ratio", "digits"] == 0.5
    assert found["slipway_window_error_ratio", "digits", "candidate"] == 0.2
    assert found["slipway_window_latency_seconds", "digits", "stable", "0.99"] == 0.08


def test_a_model_without_a_release_has_few_series() -> None:
    """It is there, with zeros, and with nothing that would have to be made up."""
    found = {key for key in values(every_metric()) if key[1:2] == ("magika",)}
    assert ("slipway_model_readable", "magika") in found
    assert {name for name, *_ in found} == {
        "slipway_model_readable",
        "slipway_releases_total",
        "slipway_releases_in_flight",
        "slipway_freezes",
        "slipway_open_findings",
    }


def test_a_model_that_cannot_be_read_is_told_as_such() -> None:
    """Nothing else is told of it: what is not known is not 0."""
    found = values(every_metric())
    assert [key for key in found if "broken" in key] == [("slipway_model_readable", "broken")]
    assert found["slipway_model_readable", "broken"] == 0


def test_the_observed_weight_is_that_of_whoever_wrote_last() -> None:
    """The watch while it watches; the record once the release has written after it."""
    key = ("slipway_candidate_weight_observed_ratio", "digits")
    assert values(every_metric())[key] == 0.5
    late = replace(every_metric(), live={"digits": watch().model_copy(update={"written_at": ago(minutes=3)})})
    assert values(late)[key] == 0.05
    assert of(digits())[key] == 0.05


def test_what_another_releases_watch_wrote_is_not_told() -> None:
    """A document of a canary that is over stays in the bucket."""
    other = replace(every_metric(), live={"digits": watch().model_copy(update={"release_id": "digits-2"})})
    names = {name for name, *_ in values(other)}
    assert "slipway_watch_written_timestamp_seconds" not in names
    assert "slipway_release_stage" in names


def test_freezes_that_are_over_are_not_counted() -> None:
    """A document may be older than a freeze's end; a freeze of every model has a name of its own."""
    found = values(every_metric())
    assert found["slipway_freezes", "digits"] == 1
    assert found["slipway_freeze_since_timestamp_seconds", "digits"] == ago(days=1).timestamp()
    assert found["slipway_freezes", EVERY_MODEL] == 1
    later = values(replace(every_metric(), read_at=NOW + timedelta(days=3)))
    assert later["slipway_freezes", "digits"] == 0
    assert ("slipway_freeze_since_timestamp_seconds", "digits") not in later


@pytest.mark.parametrize(
    ("changed", "series"),
    [
        ({"stage": "convert-a100"}, ("slipway_release_stage", "digits", "convert")),
        ({"stage": "a stage of later"}, ("slipway_release_stage", "digits", "other")),
        ({"verdict": "a verdict of later"}, ("slipway_release_verdict", "digits", "other")),
    ],
)
def test_a_word_that_is_not_ours_makes_no_new_series(
    changed: dict[str, object], series: tuple[str, ...]
) -> None:
    """What another version of Slipway wrote is told as `other`."""
    assert of(digits(), **changed)[series] == 1


def test_a_check_that_is_not_ours_is_counted_as_other() -> None:
    """As above, for findings."""
    assert values(every_metric())["slipway_open_findings", "digits", "other"] == 1


def test_no_label_is_a_version() -> None:
    """As many series with fifty versions as with three: a new version makes none."""
    many = digits()
    lines = tuple(
        VersionLine(model="digits", version=number, release_id=f"digits-{number}", ended={"refused": 1})
        for number in range(60, 3, -1)
    )
    more = many.model_copy(update={"versions": lines + many.versions})
    before, after = values(Seen({"digits": many}, NOW)), values(Seen({"digits": more}, NOW))
    assert after.keys() == before.keys()
    assert after["slipway_releases_total", "digits", "refused"] == 57


def test_names_follow_the_conventions_of_prometheus() -> None:
    """Base units at the end, `_total` for counters alone, no name twice."""
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert re.fullmatch(r"slipway_[a-z0-9_]+", family.name)
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert not re.search(r"_(ms|percent|minutes|s)$", family.name)
        assert family.help_text.endswith(".")
