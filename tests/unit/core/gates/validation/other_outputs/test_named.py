"""Outputs that nobody could look at are named, with the reason, in the request for approval as well."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.other_outputs.compare import compare_outputs
from slipway_core.gates.validation.other_outputs.result import (
    OutputAnswers,
    not_looked_at,
    report_parts,
)
from slipway_core.record.events import EventWriter
from slipway_core.record.fold import fold
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.reports.approval import approval_body
from slipway_core.spec.validation import OtherOutputs

ROWS = 40
LABELS = np.arange(ROWS) % 4
GOLDEN = GoldenSet({"x": np.arange(float(ROWS))}, LABELS)
SCORED = {"probabilities": np.eye(4)[LABELS] * 0.8 + 0.05}


def _found(candidate: Any, stable: Any, unread: Any = None, **asked: Any) -> dict[str, tuple[str, str]]:
    validation = ClassificationValidation(other_outputs=OtherOutputs(**asked))
    before = None if stable is None else OutputAnswers(SCORED, stable)
    found = compare_outputs(GOLDEN, OutputAnswers(SCORED, candidate, unread or {}), before, validation)
    return {one.name: (one.status, one.summary) for one in found}


@pytest.mark.parametrize(
    ("candidate", "stable", "unread", "asked", "told"),
    [
        ({"digit": LABELS}, None, {}, {}, "no version is live"),
        ({"digit": LABELS}, {}, {}, {}, "the stable version has no such output"),
        (
            {"digit": LABELS},
            {"digit": LABELS + 1},
            {},
            {"ignore": ("digit",)},
            "the release file leaves it out",
        ),
        ({"digit": LABELS}, {"digit": LABELS + 1}, {}, {"policy": "off"}, "the release file leaves it out"),
        ({}, {"digit": LABELS}, {"digit": "too large"}, {}, "too large"),
    ],
    ids=["first", "new", "ignored", "off", "unread"],
)
def test_what_cannot_be_looked_at_is_named(
    candidate: Any, stable: Any, unread: Any, asked: Any, told: str
) -> None:
    """Silence of a gate is no pass: the output has a status of its own, and the reason."""
    status, why = _found(candidate, stable, unread, **asked)["digit"]
    assert status == "not_looked_at"
    assert told in why


def test_a_policy_of_warn_refuses_nothing() -> None:
    """The same damage refuses by default."""
    damaged = {"digit": LABELS + 1}
    assert _found(damaged, {"digit": LABELS})["digit"][0] == "fail"
    assert _found(damaged, {"digit": LABELS}, policy="warn")["digit"][0] == "warn"


def test_numbers_that_are_none_refuse_a_first_version() -> None:
    """Rows of NaN alone are no answer, whatever is live; a list that ends with NaN may be a shorter list."""
    assert _found({"z": np.full(ROWS, np.nan)}, None)["z"][0] == "fail"
    padded = np.full((ROWS, 3), np.nan)
    padded[:, 0] = 1.0
    assert _found({"z": padded}, None)["z"][0] == "not_looked_at"


def test_the_request_for_approval_names_them() -> None:
    """A person who agrees sees what no gate has looked at."""
    found = compare_outputs(
        GOLDEN, OutputAnswers(SCORED, {"digit": LABELS}), None, ClassificationValidation()
    )
    assert not_looked_at(found) == ["digit"]
    started = EventWriter("digits-1", "digits", 1).event(
        1, datetime(2026, 1, 2, tzinfo=UTC), ReleaseStarted()
    )
    shown = report_parts(found)
    body = approval_body(fold([started]), evidence_uri="s3://b/e", validation=shown, benchmark=None)
    assert "**Outputs that were not checked:** `digit`" in body
