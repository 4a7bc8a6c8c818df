"""What breaks a rule, in the four texts that every error of this project has."""

from __future__ import annotations


class RuleError(Exception):
    """What was read is not what it should be.

    `what` names the thing that is wrong. `expected` and `found` are fragments, `remedy` is a sentence.
    """

    def __init__(self, what: str, *, expected: str, found: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.details = {"expected": expected, "found": found, "remedy": remedy}

    def __str__(self) -> str:
        return f"{self.what}: expected {self.details['expected']}, found {self.details['found']}"
