"""The scorer that `slipway init` writes for answers of a kind of their own: a file to be changed."""

from __future__ import annotations

from slipway.cli.beginning.proposal import Proposal

AGREEMENT_TOLERANCE = 0.01

_TEXT = '''"""Scores the answers of {model}. Created by `slipway init`; change it to what your users need.

It runs in a pod, with NumPy. docs/gates.md, "A scorer of your own", says what it gets and what it must return.
"""

import numpy as np

OUTPUT = {output!r}


def score(inputs, labels, answers, stable):
    """Return for each golden row whether it is right, and whether the stable version says the same.

    :param inputs: arrays by name, rows first.
    :param labels: {labels}; or None.
    :param answers: the candidate's answers, by output, rows first.
    :param stable: the stable version's answers, or None if none is live.
    """
    answer = answers[OUTPUT]
    rows = len(answer)
    found = decided(answer).reshape(rows, -1)
    scores = {{"correct": np.full(rows, np.nan)}}  # NaN: unknown without labels
    if labels is not None:
        wanted = np.asarray(labels).reshape(rows, -1)
        same = found.shape == wanted.shape
        scores["correct"] = close(found, wanted).mean(axis=1) if same else np.zeros(rows)
    if stable is not None:
        before = decided(stable[OUTPUT]).reshape(rows, -1)
        same = found.shape == before.shape
        scores["agrees"] = close(found, before).mean(axis=1) if same else np.zeros(rows)
    return scores


def decided(answer):
    """Return what an answer decides, which is compared: {decides}."""
    {decision}


def close(one, other):
    """Return which values are the same."""
    {closeness}
'''
_EXACT = "return one == other"
_NEAR = f"return np.isclose(one, other, rtol={AGREEMENT_TOLERANCE}, atol={AGREEMENT_TOLERANCE})"


def scorer_text(model: str, chosen: Proposal, *, lists: bool, probabilities: bool) -> str:
    """Return the file's text.

    :param lists: the answers are lists of scores, of which the best one counts.
    :param probabilities: they are probabilities, each of its own.
    """
    if probabilities:
        labels = "1 for yes and 0 for no, in the shape of the answers"
        decides, decision, closeness = "yes from 0.5 on", "return np.asarray(answer) >= 0.5", _EXACT
    elif lists:
        labels = "the right place in each list of scores"
        decides, decision, closeness = (
            "the best place of each list",
            "return np.argmax(answer, axis=-1)",
            _EXACT,
        )
    else:
        labels = "the right answers, in their shape"
        decides, decision, closeness = "the values themselves", "return np.asarray(answer)", _NEAR
    return _TEXT.format(
        model=model,
        output=chosen.output,
        labels=labels,
        decides=decides,
        decision=decision,
        closeness=closeness,
    )
