"""What the pages read from: the bucket that Airflow's variable names, through the connection `aws_default`.

One read model serves a process, since it keeps what it has read. It is made anew where the variable or the connection
has changed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock
from typing import Annotated

from airflow.sdk import BaseHook, Variable
from fastapi import Depends

from slipway.dag_header import releases_dir
from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.reader import ANSWER_LIMIT_S, ReadModel
from slipway_core.read_model.landed import Needed
from slipway_core.spec.release_file import load_model_spec

BUCKET_VARIABLE = "slipway_bucket"
AWS_CONN_ID = "aws_default"
LOOK_AGAIN_S = 60.0
"""How long it takes at most until a changed variable or connection is in use."""


@dataclass(frozen=True)
class Sources:
    """What is read for pages."""

    store: ModelStoreHook
    read_model: ReadModel


def needed_of(model: str) -> Needed:
    """Return what a model's release file asks for of an upload.

    :raises UserError: there is none, or none that can be read.
    """
    spec = load_model_spec(releases_dir(), model)
    source = spec.source
    root = source.location if source.is_folder else ""
    return Needed(spec.required_files(), root, source.is_folder)


class _Kept:
    def __init__(self) -> None:
        self._lock = Lock()
        self._sources: Sources | None = None
        self._made_for: tuple[str, str] = ("", "")
        self._until = 0.0

    @property
    def known(self) -> Sources | None:
        """What was made last, without asking for anything."""
        return self._sources

    def get(self) -> Sources:
        with self._lock:
            if self._sources is None or time.monotonic() > self._until:
                asked = (str(Variable.get(BUCKET_VARIABLE)), BaseHook.get_connection(AWS_CONN_ID).get_uri())
                if self._sources is None or asked != self._made_for:
                    store = ModelStoreHook(asked[0], AWS_CONN_ID, answer_limit_s=ANSWER_LIMIT_S)
                    self._sources, self._made_for = Sources(store, ReadModel(store, needed_of)), asked
                self._until = time.monotonic() + LOOK_AGAIN_S
            return self._sources


_kept = _Kept()


def sources() -> Sources:
    """Return what this process reads from."""
    return _kept.get()


def kept_sources() -> Sources | None:
    """Return what this process has read from so far; None: no page was asked for yet."""
    return _kept.known


Read = Annotated[Sources, Depends(sources)]
"""What a route asks for that shows something of the bucket."""
