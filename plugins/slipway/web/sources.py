"""What the pages read from: the bucket that Airflow's variable names, through the connection `aws_default`.

A page waits a few seconds for the store, not longer: a person can ask again.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import Annotated

from airflow.sdk import Variable
from fastapi import Depends

from slipway.hooks.s3_store import ModelStoreHook

BUCKET_VARIABLE = "slipway_bucket"
ANSWER_LIMIT_S = 5.0
KEEP_S = 60.0
"""How long a client of the store is kept: so soon a changed connection or variable is in use."""


class _Kept:
    """The client of the store, made anew from time to time: to make one takes a tenth of a second."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._store: ModelStoreHook | None = None
        self._until = 0.0

    def store(self) -> ModelStoreHook:
        with self._lock:
            if self._store is None or time.monotonic() > self._until:
                self._store = ModelStoreHook(Variable.get(BUCKET_VARIABLE), answer_limit_s=ANSWER_LIMIT_S)
                self._until = time.monotonic() + KEEP_S
            return self._store


_kept = _Kept()


def store() -> ModelStoreHook:
    """Return the store that pages read from."""
    return _kept.store()


Store = Annotated[ModelStoreHook, Depends(store)]
