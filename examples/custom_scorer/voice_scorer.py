"""Scores a voice detector: the equal error rate, and how far each answer is on the right side.

`score` returns a number for each golden row by name; `figures` reckons from these what is no mean over the rows, and is
called again with rows drawn anew for the figure's interval. Both run in a pod, with NumPy and what the image has.
"""

import numpy as np


def score(inputs, labels, answers, stable):
    """Return by golden row the probability, the label, the margin, and whether stable says the same.

    :param inputs: arrays by name, rows first.
    :param labels: 1 where a window holds speech.
    :param answers: the candidate's, by output, rows first.
    :param stable: the stable version's answers, or None if none is live.
    """
    probability = answers["speech"].reshape(len(labels))
    side = np.where(labels == 1, 1.0, -1.0)
    scores = {
        "probability": probability,
        "is_speech": labels,
        "correct": (probability >= 0.5) == (labels == 1),
        "margin": side * (probability - 0.5),
    }
    if stable is not None:
        scores["agrees"] = np.abs(probability - stable["speech"].reshape(len(labels))) <= 0.1
    return scores


def figures(scores):
    """Return the equal error rate: where as much speech is missed as noise is taken for speech."""
    speech = scores["is_speech"] == 1
    if speech.all() or not speech.any():
        return {"eer_percent": float("nan")}
    limits = np.unique(scores["probability"])
    missed = np.array([(scores["probability"][speech] < limit).mean() for limit in limits])
    false = np.array([(scores["probability"][~speech] >= limit).mean() for limit in limits])
    best = np.argmin(np.abs(missed - false))
    return {"eer_percent": 50 * float(missed[best] + false[best])}
