"""Release files that say as little as possible, and the sentence with which one is refused."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.release_file import parse_release_spec

MINIMAL = "model: digits\nsource: {}\n"
PYTHON = "model: digits\nsource: {format: python}\nconversion: {target: python}\n"
LLM = "model: chat\nsource: {format: checkpoint}\n"
ENSEMBLE = "model: digits\nsource: {format: repository}\nconversion: {target: ensemble}\n"


def refusal(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_release_spec(text, "digits.yaml")
    return caught.value
