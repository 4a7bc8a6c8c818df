"""What the stages of a release are called for people: on pages, in the command and in the log of a release."""

from __future__ import annotations

_STAGES = {
    "admit": "admission",
    "choose": "choice of a variant",
    "smoke_test": "smoke test",
    "stage": "staging",
    "validate": "validation",
    "mirror": "mirror comparison",
    "approve": "approval",
    "approve_promotion": "approval of the promotion",
    "hold": "wait at the last weight",
    "roll_back": "rollback",
}

# The stages in which a person is asked, and what the answer is needed for.
ASKED_BEFORE = {"approve": "canary", "approve_promotion": "promotion"}


def stage_name(name: str) -> str:
    """Return what a stage of the record is called, `validation` for `validate`."""
    if name.startswith("convert-"):
        return f"convert {name.removeprefix('convert-')}"
    return _STAGES.get(name, name.replace("_", " "))
