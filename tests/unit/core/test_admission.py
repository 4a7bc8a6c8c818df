"""Which version a run may begin with."""

from __future__ import annotations

import pytest

from slipway_core.admission import (
    require_newer,
    require_older,
    require_unreleased,
    restore_refusal,
)
from slipway_core.errors import AlreadyReleasedError, UserError
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
