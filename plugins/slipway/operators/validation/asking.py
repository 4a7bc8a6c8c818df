"""Golden requests to a staged version: its answers, how long each took, and some of them asked again."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from slipway.hooks.triton import TritonHook
from slipway.operators.staging import StagedModel
from slipway.operators.validation.other_answers import OtherAnswers
from slipway_core.errors import SpecError
from slipway_core.gates.validation.asking import answer_of, joined
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.health import Probe, probe_of, rows_to_probe
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.kinds.custom import CustomValidation
from slipway_core.gates.validation.other_outputs.result import OutputAnswers
from slipway_core.gates.validation.request_options import (
    inputs_taken,
    is_decoupled,
)
from slipway_core.spec.validation import Validation

log = logging.getLogger(__name__)


# A request may take this share of its limit by what a single row takes: the machine may be busy with others.
_SHARE_OF_LIMIT = 0.25
_STREAMS_AT_ONCE = 8


@dataclass(frozen=True)
class Answered:
    """What a version answered, a row for each golden row.

    :ivar outputs: every output that was asked for, where a scorer is given them.
    :ivar latency_ms: by row, how long the request took that carried it; empty where answers come in streams.
    :ivar whole: the answers in all outputs, those that are not scored too.
    """

    answers: np.ndarray
    latency_ms: tuple[float, ...] = ()
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    whole: OutputAnswers = field(default_factory=OutputAnswers)


@dataclass(frozen=True)
class GoldenQuestions:
    """The golden set, as it is asked of staged versions.

    :ivar others: the outputs of the candidate that are not scored.
    """

    hook: TritonHook
    validation: Validation
    golden: GoldenSet
    others: tuple[str, ...] = ()

    def ask(self, staged: StagedModel) -> Answered:
        """Return one version's answers to all rows."""
        found = self._streamed(staged) if streams(staged) else self._answered(staged)
        log.info("%s version %s answered %s golden rows", staged.name, staged.version, self.golden.rows)
        return found

    def probe(self, staged: StagedModel) -> Probe | None:
        """Ask some golden rows again, alone and together; None where answers are texts or come in streams."""
        if streams(staged) or not kind_of(self.validation).asked_again:
            return None
        golden, asked = self.golden, self.validation

        def ask(chosen: Sequence[int]) -> dict[str, np.ndarray]:
            found = self.hook.infer(staged.name, staged.version, golden.take(chosen), asked.outputs)
            return {name: golden.rows_first(name, one, len(chosen)) for name, one in found.items()}

        rows = rows_to_probe(asked.health.probe_rows, golden.rows, golden.request_rows)
        return probe_of(ask, rows, golden.request_rows, self._batch_rows(staged))

    def _streamed(self, staged: StagedModel) -> Answered:
        if isinstance(self.validation, CustomValidation):
            raise _no_streams(staged.name)
        # How the rows of a batch share its responses is each model's own affair.
        requests = [inputs_taken(staged.config, inputs) for _, inputs in self.golden.batches(1)]
        output, began = self.validation.output, time.monotonic()
        ask = partial(self.hook.infer_stream, staged.name, staged.version)
        responses = ask(requests[:1], [output])
        # Requests that are under way at once wait for each other, and each has the limit of one.
        fitting = self.hook.timeout_s * _SHARE_OF_LIMIT / max(time.monotonic() - began, 1e-6)
        at_once = int(max(1, min(fitting, _STREAMS_AT_ONCE)))
        responses += ask(requests[1:], [output], concurrency=at_once) if requests[1:] else []
        texts = [[one[output] for one in each] for each in responses]
        unread = dict.fromkeys(self.others, "answers that come in streams are not compared by output")
        return Answered(kind_of(self.validation).gather(texts), whole=OutputAnswers(unread=unread))

    def _answered(self, staged: StagedModel) -> Answered:
        golden, scored = self.golden, self.validation.outputs
        others = OtherAnswers(golden, self._known(staged))
        parts, latency_ms = [], []
        by_output: dict[str, list[np.ndarray]] = {output: [] for output in scored}
        for rows, inputs in golden.batches(self._batch_rows(staged)):
            count, began = rows.stop - rows.start, time.perf_counter()
            taken = inputs_taken(staged.config, inputs)
            arrays = others.asked(partial(self.hook.infer, staged.name, staged.version, taken), scored, count)
            latency_ms += [1000 * (time.perf_counter() - began)] * count
            parts.append(answer_of(golden, self.validation, arrays, count))
            for output, each in by_output.items():
                each.append(golden.rows_first(output, arrays[output], count))
        is_custom = isinstance(self.validation, CustomValidation)
        outputs = {output: joined(each) for output, each in by_output.items()} if is_custom else {}
        return Answered(joined(parts), tuple(latency_ms), outputs, others.whole(by_output))

    def _known(self, staged: StagedModel) -> tuple[str, ...]:
        """Return the other outputs that a version has, as far as its configuration says."""
        known = {str(tensor["name"]) for tensor in staged.config.get("output", ())}
        return tuple(name for name in self.others if not known or name in known)

    def _batch_rows(self, staged: StagedModel) -> int:
        """Return how many golden rows a request has: the release file knows the limit only of a model whose
        configuration it makes. Of a slow model fewer, so that each request is answered within its limit.
        """
        size = self.validation.batch_size
        most = min(int(staged.config.get("max_batch_size", 0)) or size, size)
        if self.golden.request_rows is not None or most < 2:
            return most
        fitting = self.hook.timeout_s * _SHARE_OF_LIMIT / max(self._single_s(staged, most), 1e-6)
        return int(max(1, min(fitting, most)))

    def _single_s(self, staged: StagedModel, most: int) -> float:
        """Return how long one row takes alone; asked twice where the first, which may warm the model up, is slow."""
        inputs = inputs_taken(staged.config, self.golden.take([0]))
        taken: list[float] = []
        while len(taken) < 2 and (not taken or taken[0] * most > self.hook.timeout_s * _SHARE_OF_LIMIT):
            began = time.monotonic()
            self.hook.infer(staged.name, staged.version, inputs, self.validation.outputs)
            taken.append(time.monotonic() - began)
        return min(taken)


def _no_streams(name: str) -> SpecError:
    return SpecError(
        f"the answers of {name} come in streams, which scorers do not get",
        expected="a model that answers each request once",
        found="`model_transaction_policy.decoupled`",
        remedy="Use `kind: text`, or score a model that is not decoupled.",
    )


def streams(staged: StagedModel) -> bool:
    """Return whether a staged version answers over streams alone."""
    return is_decoupled([staged.config, *(member.config for member in staged.members)])
