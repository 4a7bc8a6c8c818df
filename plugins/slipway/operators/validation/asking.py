"""Golden requests to a staged version: its answers, how long each took, and some of them asked again."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from include.model_release.errors import SpecError
from include.model_release.gates.validation.asking import answer_of, joined
from include.model_release.gates.validation.golden_set import GoldenSet
from include.model_release.gates.validation.health import Probe, probe_of, rows_to_probe
from include.model_release.gates.validation.request_options import (
    gather_responses,
    inputs_taken,
    is_decoupled,
)
from include.model_release.spec.validation import CustomValidation, TextValidation, Validation
from slipway.hooks.triton import TritonHook
from slipway.operators.staging import StagedModel

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answered:
    """What a version answered, a row for each golden row.

    :ivar outputs: every output that was asked for, where a scorer is given them.
    :ivar latency_ms: by row, how long the request took that carried it; empty where answers come in streams.
    """

    answers: np.ndarray
    latency_ms: tuple[float, ...] = ()
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class GoldenQuestions:
    """The golden set, as it is asked of staged versions."""

    hook: TritonHook
    validation: Validation
    golden: GoldenSet

    def ask(self, staged: StagedModel) -> Answered:
        """Return one version's answers to all rows."""
        name, version, outputs = staged.name, staged.version, self.validation.outputs
        is_custom = isinstance(self.validation, CustomValidation)
        if streams(staged):
            if is_custom:
                raise _no_streams(name)
            # How the rows of a batch share its responses is each model's own affair.
            requests = [inputs_taken(staged.config, inputs) for _, inputs in self.golden.batches(1)]
            output = self.validation.output
            responses = self.hook.infer_stream(name, version, requests, [output])
            texts = [[one[output] for one in each] for each in responses]
            found = Answered(gather_responses(texts, self.validation))
        else:
            parts, latency_ms = [], []
            by_output: dict[str, list[np.ndarray]] = {output: [] for output in outputs if is_custom}
            for rows, inputs in self.golden.batches(self._batch_rows(staged)):
                count, began = rows.stop - rows.start, time.perf_counter()
                arrays = self.hook.infer(name, version, inputs_taken(staged.config, inputs), outputs)
                latency_ms += [1000 * (time.perf_counter() - began)] * count
                parts.append(answer_of(self.golden, self.validation, arrays, count))
                for output, each in by_output.items():
                    each.append(self.golden.rows_first(output, arrays[output], count))
            whole = {output: joined(each) for output, each in by_output.items()}
            found = Answered(joined(parts), tuple(latency_ms), whole)
        log.info("%s version %s answered %s golden rows", name, version, self.golden.rows)
        return found

    def probe(self, staged: StagedModel) -> Probe | None:
        """Ask some golden rows again, alone and together; None where answers are texts or come in streams."""
        if streams(staged) or isinstance(self.validation, TextValidation):
            return None
        golden, asked = self.golden, self.validation

        def ask(chosen: Sequence[int]) -> dict[str, np.ndarray]:
            found = self.hook.infer(staged.name, staged.version, golden.take(chosen), asked.outputs)
            return {name: golden.rows_first(name, one, len(chosen)) for name, one in found.items()}

        rows = rows_to_probe(asked.health.probe_rows, golden.rows, golden.request_rows)
        return probe_of(ask, rows, golden.request_rows, self._batch_rows(staged))

    def _batch_rows(self, staged: StagedModel) -> int:
        """Return how many golden rows a request has: the release file knows the limit only of a model whose
        configuration it makes.
        """
        size = self.validation.batch_size
        return min(int(staged.config.get("max_batch_size", 0)) or size, size)


def _no_streams(name: str) -> SpecError:
    return SpecError(
        f"the answers of {name} come in streams, which a scorer is not given",
        expected="a model that answers each request once",
        found="`model_transaction_policy.decoupled`",
        remedy="Take `kind: text`, or score a model that is not decoupled.",
    )


def streams(staged: StagedModel) -> bool:
    """Return whether a staged version answers over streams alone."""
    return is_decoupled([staged.config, *(member.config for member in staged.members)])
