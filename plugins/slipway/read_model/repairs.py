"""Documents that are to be written anew, one model after another, beside everything else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

AGAIN_S = 600.0
"""A document that was made again is not made again for so long, also where it could not be written, or there was
nothing to write."""


class Repairs:
    """A queue of models, worked off by a thread that ends when nothing is left.

    :param repair: brings the document of a model up to date by some versions.
    """

    def __init__(self, repair: Callable[[str, set[int]], object]) -> None:
        self._repair = repair
        self._lock = threading.Lock()
        self._wanted: dict[str, set[int]] = {}
        self._made_at: dict[str, float] = {}
        self._is_running = False

    def want(self, model: str, version: int | None = None) -> bool:
        """Have the document of a model brought up to date soon; return whether it will be.

        :param version: whose record has more than the document says; None: there is no document.
        """
        with self._lock:
            if version is None and time.monotonic() - self._made_at.get(model, float("-inf")) < AGAIN_S:
                return False
            self._wanted.setdefault(model, set()).update(() if version is None else (version,))
            if self._is_running:
                return True
            self._is_running = True
        threading.Thread(target=self._work, name="slipway read model repair", daemon=True).start()
        return True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._is_running = False
                    return
                model = next(iter(self._wanted))
                versions = self._wanted.pop(model)
            try:
                self._repair(model, versions)
            except Exception as error:
                log.warning("the document of %s could not be rebuilt: %s", model, error)
                continue
            with self._lock:
                self._made_at[model] = time.monotonic()
