"""Second outputs of two models that were trained apart: all pass as they are, and each damage to one is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.other_outputs.compare import compare_outputs
from slipway_core.gates.validation.other_outputs.result import OutputAnswers

NAMES = np.asarray(
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], dtype=object
)
WORDS = ["dark", "light", "round", "thin", "left", "right", "tall", "small", "bent", "straight"]
VALIDATION = ClassificationValidation(output="scores")
Outputs = dict[str, Any]


@cache
def _data() -> tuple[Any, Any, GoldenSet]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = digits.data.astype(np.float64) / 16
    golden = GoldenSet({"pixels": x[1500:]}, digits.target[1500:].astype(np.int64))
    return x[:1500], digits.target[:1500], golden


@cache
def _trained(seed: int) -> tuple[Outputs, Outputs]:
    """Return what a small network and two more heads answer to the golden set: the scored output, and all others."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier

    x, y, golden = _data()
    numbers = np.random.default_rng(seed)
    rows = numbers.permutation(1500)[:1000]
    model = MLPClassifier((24,), random_state=seed, max_iter=60).fit(x[rows], y[rows])
    pixels = golden.inputs["pixels"]
    hidden = np.maximum(pixels @ model.coefs_[0] + model.intercepts_[0], 0)
    logits = hidden @ model.coefs_[1] + model.intercepts_[1]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = powers / powers.sum(axis=1, keepdims=True)
    best = scores.argmax(axis=1)
    even = LogisticRegression(max_iter=300).fit(x[rows][:, ::2], y[rows] % 2)
    style = LogisticRegression(max_iter=300).fit(
        x[rows][:, :32], np.digitize(x[rows].mean(axis=1), [0.27, 0.3, 0.33])
    )
    ink = Ridge(1.0).fit(x[rows][:, ::3], 10 * x[rows].sum(axis=1))
    few = [
        " ".join([NAMES[one], *(WORDS[place] for place in np.argsort(-h[:10])[:4])])
        for one, h in zip(best, hidden, strict=True)
    ]
    others: Outputs = {
        "digit": best.astype(np.int64),
        "digit_from_one": best.astype(np.int32)[:, None] + 1,
        "name": NAMES[best],
        "sureness": scores.max(axis=1).astype(np.float32),
        "percent": (100 * scores.max(axis=1)).astype(np.float32),
        "logits": logits.astype(np.float32),
        "hidden": hidden.astype(np.float32),
        "unit": (hidden / np.linalg.norm(hidden, axis=1, keepdims=True)).astype(np.float32),
        "order": np.argsort(-scores, axis=1, kind="stable")[:, :10].astype(np.int64),
        "odd": even.predict(pixels[:, ::2]).astype(np.int64),
        "style": style.predict(pixels[:, :32]).astype(np.int64),
        "style_scores": style.predict_proba(pixels[:, :32]).astype(np.float32),
        "ink": ink.predict(pixels[:, ::3]).astype(np.float32),
        "caption": np.asarray([one.encode() for one in few], dtype=object),
    }
    return {"scores": scores.astype(np.float32)}, others


def _statuses(stable: int, candidate: int, only: str = "", **damaged: Any) -> dict[str, tuple[str, str]]:
    (scored, others), (before, theirs) = _trained(candidate), _trained(stable)
    if only:
        others, theirs = {only: others[only]}, {only: theirs[only]}
    found = compare_outputs(
        _data()[2], OutputAnswers(scored, {**others, **damaged}), OutputAnswers(before, theirs), VALIDATION
    )
    return {one.name: (one.status, f"{one.measure}: {one.summary}") for one in found}


@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_a_model_that_was_trained_again_keeps_all_its_outputs(seed: int) -> None:
    """Other scores, other classes of some rows and a hidden layer in another order are no damage."""
    found = _statuses(1, seed)
    assert not {name: told for name, told in found.items() if told[0] in ("fail", "not_looked_at")}


def _of_numbers(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda one: None if one.dtype.kind == "O" else change(one)


def _with_one_nan(values: Any) -> Any:
    changed = values.copy()
    changed.reshape(-1)[9] = np.nan
    return changed


def _wrong_text(values: Any) -> Any:
    return (
        np.asarray([b"no such thing"] * (len(values) - 1) + [b"none"], dtype=object)
        if values.dtype.kind == "O"
        else None
    )


DAMAGES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda one: np.repeat(one[:1], len(one), axis=0),
    "rows of others": lambda one: np.roll(one, 7, axis=0),
    "turned": _of_numbers(lambda one: -one),
    "ten times": _of_numbers(lambda one: one * 10),
    "NaN": lambda one: one * np.float32(np.nan) if one.dtype.kind == "f" else None,
    "one NaN": lambda one: _with_one_nan(one) if one.dtype.kind == "f" else None,
    "off by one": lambda one: one + 1 if one.dtype.kind == "i" else None,
    "wrong text": _wrong_text,
    "another type": lambda one: one.astype(str).astype(object) if one.dtype.kind != "O" else None,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_trained(1)[1]))
@pytest.mark.parametrize("damage", sorted(DAMAGES))
@pytest.mark.parametrize("candidate", [1, 2], ids=["the same model", "trained again"])
def test_a_damaged_output_is_refused(damage: str, name: str, candidate: int) -> None:
    """Whichever output it is, of the same weights and of others, and also where it is the only one besides."""
    changed = DAMAGES[damage](_trained(candidate)[1][name])
    if changed is None:
        pytest.skip("this damage is of another kind of answer")
    found = _statuses(1, candidate, name, **{name: changed})
    assert found[name][0] == "fail", found[name]


@pytest.mark.parametrize("name", ["digit", "logits", "style_scores"])
def test_the_others_are_not_blamed(name: str) -> None:
    """Only an output that is tied to the damaged one alone is told beside it: which of the two is right is open."""
    found = _statuses(1, 2, **{name: np.roll(_trained(2)[1][name], 7, axis=0)})
    assert found[name][0] == "fail"
    blamed = {other: told for other, (status, told) in found.items() if status == "fail" and other != name}
    assert blamed.keys() <= ({"style"} if name == "style_scores" else set())
    assert all(told.startswith("relation") for told in blamed.values())


@pytest.mark.parametrize("name", ["hidden", "ink", "sureness", "percent"])
def test_an_output_of_the_same_weights_is_held_to_equality(name: str) -> None:
    """Where what is scored did not change by a digit, twice the numbers in another output are no training."""
    assert _statuses(1, 1, name, **{name: 2 * _trained(1)[1][name]})[name][0] == "fail"
