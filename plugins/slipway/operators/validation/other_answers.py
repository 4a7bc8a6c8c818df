"""The answers in the outputs that are not scored: gathered beside the scored ones, and never in their way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from slipway_core.errors import SlipwayError, TransientError
from slipway_core.gates.validation.asking import joined
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.other_outputs.result import OutputAnswers

log = logging.getLogger(__name__)

# Of all golden rows together; what is larger is not kept, and the report names it.
LIMIT_BYTES = 256 << 20

Infer = Callable[[Sequence[str]], Mapping[str, np.ndarray]]


class OtherAnswers:
    """Asks for other outputs with the scored ones, as long as they can be read.

    :param names: the outputs.
    """

    def __init__(self, golden: GoldenSet, names: Sequence[str]) -> None:
        self._golden = golden
        self._parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
        self._unread: dict[str, str] = {}

    def asked(self, infer: Infer, scored: Sequence[str], rows: int) -> Mapping[str, np.ndarray]:
        """Return the answer to a request of so many rows, and keep its other outputs.

        :param infer: sends the request, for outputs by their names.
        """
        arrays = self._with_others(infer, scored)
        for name in list(self._parts):
            try:
                self._parts[name].append(self._golden.rows_first(name, arrays[name], rows))
            except (KeyError, ValueError) as error:
                self._leave_out(name, f"its answer cannot be read: {error}")
        self._keep_small(rows)
        return arrays

    def whole(self, scored: Mapping[str, Sequence[np.ndarray]]) -> OutputAnswers:
        """Return all answers, one after the other.

        :param scored: the answers in the scored outputs, by request.
        """
        found: dict[str, np.ndarray] = {}
        for name, parts in list(self._parts.items()):
            whole = self._joined(name, parts)
            if whole is not None:
                found[name] = whole
        return OutputAnswers(_joined_all(scored), found, dict(self._unread))

    def _with_others(self, infer: Infer, scored: Sequence[str]) -> Mapping[str, np.ndarray]:
        if not self._parts:
            return infer(scored)
        try:
            return infer([*scored, *self._parts])
        except TransientError:
            raise
        except SlipwayError as error:
            # Whose fault that is the scored outputs alone tell.
            arrays = infer(scored)
            log.warning("the other outputs cannot be requested: %s", error)
            for name in list(self._parts):
                self._leave_out(name, f"the server does not answer with it: {error.in_short()}")
            return arrays

    def _joined(self, name: str, parts: Sequence[np.ndarray]) -> np.ndarray | None:
        try:
            whole = joined(parts)
        except SlipwayError as error:
            self._leave_out(name, error.in_short())
            return None
        if whole.shape[:1] != (self._golden.rows,):
            self._leave_out(name, f"its shape is {list(whole.shape)}, without a row for each golden row")
            return None
        return whole

    def _keep_small(self, rows: int) -> None:
        """Leave out what is too large for all golden rows, by what one request has."""
        left = LIMIT_BYTES
        for name, parts in sorted(self._parts.items(), key=lambda one: one[1][-1].nbytes):
            left -= parts[-1].nbytes * -(-self._golden.rows // max(rows, 1))
            if left < 0:
                self._leave_out(
                    name, f"its answers are larger than the {LIMIT_BYTES >> 20} MiB that are kept"
                )

    def _leave_out(self, name: str, why: str) -> None:
        self._parts.pop(name, None)
        self._unread[name] = why


def _joined_all(parts: Mapping[str, Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    found = {}
    for name, each in parts.items():
        if len({one.shape[1:] for one in each}) == 1:
            found[name] = np.concatenate(list(each))
    return found
