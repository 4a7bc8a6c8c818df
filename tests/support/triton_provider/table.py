"""Rows for the model table, one of which it cannot run; the context of a task."""

from __future__ import annotations

from typing import Any

import numpy as np

CONTEXT: Any = {}
ROW = np.array([[1, 2]], dtype=np.float32)
UNKNOWN_ROW = np.array([[50, 1]], dtype=np.float32)  # the table model cannot run it
