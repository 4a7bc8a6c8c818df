"""What guards have logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lines = Callable[[], list[dict[str, Any]]]
