"""A scorer of the user's own as its pod's program runs it, over a voice detector's answers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.scoring.given import pack_given
from slipway_core.gates.validation.scoring.returned import read_returned
from tests.support.pods.support import ObjectStore, PodRun

EXAMPLE = (Path(__file__).parents[3] / "examples" / "custom_scorer" / "voice_scorer.py").read_text()
ROWS = 40
LABELS = np.arange(ROWS) % 2
ANSWERS = {"speech": np.where(LABELS == 1, 0.8, 0.2).astype(np.float32)[:, np.newaxis]}
GOLDEN = GoldenSet({"text": np.array([b"caf\xc3\xa9"] * ROWS, dtype=object)}, LABELS)


class RunsPrograms(Protocol):
    """A pod, whatever it is made of."""

    def run(self, script: str, *arguments: str, prefix: str) -> PodRun:
        """Run a program to its end."""


class Scorer:
    """Runs the program over an object store."""

    def __init__(self, pod: RunsPrograms, store: ObjectStore, prefix: str) -> None:
        self.pod, self.store, self.prefix = pod, store, prefix
        self.given = pack_given(GOLDEN, ANSWERS, ANSWERS)

    def run(self, scorer: str, *more: str, given_sha256: str | None = None) -> PodRun:
        """Score with this program."""
        given = self.store.put(f"{self.prefix}/given.npz", self.given)
        program = self.store.put(f"{self.prefix}/scorer.py", scorer.encode())
        arguments = ["--given", given, "--scorer", program, "--rows", str(ROWS)]
        arguments += ["--given-sha256", given_sha256 or hashlib.sha256(self.given).hexdigest()]
        arguments += ["--scorer-sha256", hashlib.sha256(scorer.encode()).hexdigest(), *more]
        return self.pod.run("score_answers.py", *arguments, prefix=self.prefix)

    def returned(self, run: PodRun) -> Any:
        """Return what the gate reads of it."""
        assert run.result is not None, run.stderr
        return read_returned(run.result, self.store.read(f"{self.prefix}/scores.npz"), ROWS)
