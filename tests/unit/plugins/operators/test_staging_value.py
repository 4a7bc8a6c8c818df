"""What the task that prepares staging hands on to the gates."""

from __future__ import annotations

import pytest

from slipway.operators.staging import StagedModel, Staging
from slipway_core.errors import UserError

STAGING = Staging(
    candidate=StagedModel(name="digits-candidate", version=3, config={}),
    baseline=None,
    manifest_sha256="0" * 64,
)


def test_it_is_read_as_it_was_handed_on() -> None:
    """What one task returns is what the next one reads."""
    assert Staging.parse(STAGING.model_dump_json()) == STAGING


@pytest.mark.parametrize("rendered", ["", "null", "{}", "not JSON", '{"candidate": {}}'])
def test_what_is_no_staging_says_which_tasks_to_run_again(rendered: str) -> None:
    """A person must act: trying the same again would meet the same."""
    with pytest.raises(UserError, match="Clear the tasks of the group staging"):
        Staging.parse(rendered)
