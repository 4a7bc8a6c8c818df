"""Which version a run may begin with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway_core.errors import AlreadyReleasedError, StartNeedsPersonError, UserError
from slipway_core.permission.admission import (
    AdmissionFacts,
    decide_admission,
    require_newer,
    require_older,
    require_unreleased,
    restore_refusal,
)
from slipway_core.record.fold import fold
from tests.support.record.attempts import (
    DIGEST,
    GOOD,
    OTHER_DIGEST,
    ended,
    finished,
    going_back,
    gone_back,
    promotion,
    record,
    started,
)

RUN = "digits-3"

# --- a release ---


def test_a_version_that_users_have_met_is_not_released_again() -> None:
    """Promoted or rolled back once is enough, also where a later attempt ended otherwise."""
    require_unreleased("digits", 3, None)
    require_unreleased(
        "digits", 3, fold(record(started(), finished("validate", "refused"), ended("refused")))
    )
    promoted = (*GOOD, promotion(), ended("promoted"))
    with pytest.raises(AlreadyReleasedError, match="found promoted"):
        require_unreleased("digits", 3, fold(record(*promoted)))
    again = record(*promoted, started(), finished("validate", "refused"), ended("refused"))
    with pytest.raises(AlreadyReleasedError, match=r"found promoted.*ended as refused"):
        require_unreleased("digits", 3, fold(again))
    back = record(*GOOD, going_back(), gone_back(), ended("rolled_back"))
    with pytest.raises(AlreadyReleasedError, match="found rolled_back"):
        require_unreleased("digits", 3, fold(back))


def test_a_release_goes_forward() -> None:
    """Where a newer version is live, an older one is refused; the live one itself and the first one are not."""
    require_newer("digits", 3, live=None)
    require_newer("digits", 3, live=3)
    with pytest.raises(AlreadyReleasedError, match="Expected a version above 4"):
        require_newer("digits", 3, live=4)


def facts(**known: Any) -> AdmissionFacts:
    """What is known of a version without a record, of a model of which nothing is live."""
    nothing = AdmissionFacts("digits", 3, RUN, state=None, live=None, taken_back=None, force=False)
    return replace(nothing, **known)


def test_a_run_resumes_what_it_has_opened_and_begins_all_else() -> None:
    """A task that is run again goes on; a run that has ended and was cleared begins anew, and so does another run."""
    under_way = fold(record(started()))
    own = under_way.release_id
    assert decide_admission(facts()) == "begin"
    assert decide_admission(facts(state=under_way, release_id=own)) == "resume"
    assert decide_admission(facts(state=under_way, release_id="another")) == "begin"
    over = fold(record(started(), finished("validate", "refused"), ended("refused")))
    assert decide_admission(facts(state=over, release_id=own)) == "begin"


def test_force_asks_again_for_what_users_have_met_and_for_an_older_version() -> None:
    """Without it both are refused."""
    promoted = fold(record(*GOOD, promotion(), ended("promoted")))
    for known in ({"state": promoted}, {"live": 4}):
        with pytest.raises(AlreadyReleasedError):
            decide_admission(facts(**known))
        assert decide_admission(facts(**known, force=True)) == "begin"


def test_after_a_rollback_only_a_person_begins_a_release() -> None:
    """Not even with force; but what has begun goes on."""
    with pytest.raises(StartNeedsPersonError, match="version 2 was rolled back"):
        decide_admission(facts(taken_back=2, force=True))
    under_way = fold(record(started()))
    assert decide_admission(facts(taken_back=2, state=under_way, release_id=under_way.release_id)) == "resume"


# --- a rollback ---


def test_only_a_promoted_version_may_be_gone_back_to() -> None:
    """Promoted, not rolled back since, and still with the manifest that it was promoted with."""
    good = fold(record(*GOOD, promotion(), ended("promoted")))
    assert restore_refusal(good, manifest_sha256=DIGEST) is None
    replaced = restore_refusal(good, manifest_sha256=OTHER_DIGEST)
    assert "another manifest" in str(replaced)
    back = fold(record(*GOOD, going_back(), gone_back()))
    assert "it was rolled back" in str(restore_refusal(back, manifest_sha256=DIGEST))
    refused = fold(record(started(), finished("validate", "refused"), ended("refused")))
    assert "it was never promoted" in str(restore_refusal(refused, manifest_sha256=DIGEST))


def test_back_means_older() -> None:
    """A newer version, and the live one itself, are not what one goes back to."""
    require_older("digits", 2, live=3)
    for version in (3, 4):
        with pytest.raises(UserError, match="is not older than version 3"):
            require_older("digits", version, live=3)
