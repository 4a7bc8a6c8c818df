"""The sentence with which a release file is refused."""

from __future__ import annotations

import pytest

from include.model_release.errors import SpecError
from include.model_release.spec.release_file import (
    parse_release_spec,
)

MINIMAL = "model: digits\nsource: {}\n"


def refusal(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_release_spec(text, "digits.yaml")
    return caught.value
