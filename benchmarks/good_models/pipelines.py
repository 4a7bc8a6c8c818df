"""scikit-learn pipelines as their users export them, with skl2onnx, to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.good_models.family import Array, Family, Landed

# The subjects of three kinds of messages; a message is some words of one of them, and some that all have.
_TOPICS = tuple(
    words.split()
    for words in (
        "match goal team League coach player Season stadium score referee champion striker",
        "rain wind Storm cloud sunny degrees forecast humid snow thunder breeze Frost",
        "stock Market shares profit bank interest inflation price bond investor Dividend loan",
    )
)
_COMMON = (
    "the",
    "a",
    "of",
    "and",
    "In",
    "today",
    "after",
    "with",
    "from",
    "Über",
    "größer",
    "for",
    "on",
    "more",
    "than",
)
_TEXTS = "source: {format: onnx}\nvalidation: {output: probabilities}\n"


def pipelines() -> list[Family]:
    """Return the families of this module."""
    return [
        Family(
            "topics",
            "TfidfVectorizer with lowercase=True, which becomes a StringNormalizer with a locale",
            _TEXTS,
            _topics,
        ),
        Family(
            "passengers",
            "a ColumnTransformer over texts and numbers: one input for each column",
            "source: {format: onnx}\nvalidation: {output: probabilities, accuracy_min: 0.8}\n",
            _passengers,
        ),
        Family(
            "nearest-digits",
            "k nearest neighbours, whose probabilities are fifths; max_batch_size 5",
            "source: {format: onnx}\nserving: {max_batch_size: 5}\nvalidation: {output: probabilities}\n",
            _nearest,
        ),
        Family(
            "trees-of-regret",
            "a gradient boosting regressor; max_batch_size 6",
            "source: {format: onnx}\nserving: {max_batch_size: 6}\n"
            "validation: {kind: regression, output: variable, r2_min: 0.7}\n",
            _regressor,
        ),
        Family(
            "words-to-label",
            "a text goes in, its label comes out as a text, held as texts",
            "source: {format: onnx}\nvalidation: {kind: text, output: label}\n",
            _text_labels,
        ),
    ]


def to_onnx(model: Any, inputs: list[tuple[str, Any]], **options: Any) -> bytes:
    """Return the model as skl2onnx exports it.

    :param inputs: names and types; the first size is left open.
    """
    from skl2onnx import convert_sklearn

    exported = convert_sklearn(model, initial_types=inputs, target_opset=17, **options)
    return bytes(exported.SerializeToString())


def _floats(name: str, width: int) -> tuple[str, Any]:
    from skl2onnx.common.data_types import FloatTensorType

    return name, FloatTensorType([None, width])


def _strings(name: str) -> tuple[str, Any]:
    from skl2onnx.common.data_types import StringTensorType

    return name, StringTensorType([None, 1])


def _messages(seed: int, rows: int) -> tuple[Array, Array]:
    """Return texts (rows x 1) and their topics (rows)."""
    numbers = np.random.default_rng(seed)
    topics = numbers.integers(0, len(_TOPICS), rows)
    texts = [
        " ".join(numbers.permutation([*numbers.choice(_TOPICS[topic], 4), *numbers.choice(_COMMON, 6)]))
        for topic in topics
    ]
    return np.array(texts, dtype=np.str_)[:, None], topics.astype(np.int64)


def _topic_pipeline(version: int, labels: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, topics = _messages(version, 600)
    return make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts[:, 0], labels(topics))


def _topics(folder: Path, version: int) -> Landed:
    pipeline = _topic_pipeline(version, lambda topics: topics)
    content = to_onnx(pipeline, [_strings("text")], options={"zipmap": False})
    texts, topics = _messages(100, 200)
    return Landed({"model.onnx": content}, {"text": texts, "label": topics})


def _text_labels(folder: Path, version: int) -> Landed:
    names = np.array(["sports", "weather", "money"])
    pipeline = _topic_pipeline(version, lambda topics: names[topics])
    content = to_onnx(pipeline, [_strings("text")], options={"zipmap": False})
    texts, topics = _messages(100, 200)
    return Landed({"model.onnx": content}, {"text": texts, "label": names[topics]})


def _people(seed: int, rows: int) -> tuple[dict[str, Array], Array]:
    """Return made passengers by column, each (rows x 1), and who of them was saved (rows)."""
    numbers = np.random.default_rng(seed)
    ticket = numbers.choice(["first", "second", "third"], rows, p=[0.25, 0.25, 0.5])
    sex = numbers.choice(["female", "male"], rows)
    age, fare = numbers.gamma(4, 8, rows), numbers.gamma(2, 15, rows) * (1 + 2 * (ticket == "first"))
    odds = (
        3.0 * (sex == "female")
        + 2.2 * (ticket == "first")
        - 0.05 * age
        - 0.4
        + numbers.logistic(0, 0.3, rows)
    )
    columns = {"ticket": ticket, "sex": sex, "age": age.astype(np.float32), "fare": fare.astype(np.float32)}
    return {name: values[:, None] for name, values in columns.items()}, (odds > 0).astype(np.int64)


def _passengers(folder: Path, version: int) -> Landed:
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns, saved = _people(version, 1500)
    table = pd.DataFrame({name: values[:, 0] for name, values in columns.items()})
    prepared = ColumnTransformer(
        [("words", OneHotEncoder(), ["ticket", "sex"]), ("numbers", StandardScaler(), ["age", "fare"])]
    )
    pipeline = make_pipeline(prepared, LogisticRegression()).fit(table, saved)
    inputs = [_strings("ticket"), _strings("sex"), _floats("age", 1), _floats("fare", 1)]
    golden, label = _people(100, 300)
    content = to_onnx(pipeline, inputs, options={"zipmap": False})
    return Landed({"model.onnx": content}, {**golden, "label": label})


def all_digits() -> tuple[Array, Array]:
    """Return scikit-learn's digits in a fixed order: pixels (rows x 64, 0 to 1) and labels (rows)."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return (found.data[order] / 16).astype(np.float32), found.target[order].astype(np.int64)


def digits(version: int) -> tuple[Array, Array, Array, Array]:
    """Return pixels (rows x 64, 0 to 1) and labels for training, drawn by the version, and golden ones."""
    pixels, labels = all_digits()
    drawn = np.random.default_rng(version).permutation(1500)[:1300]
    return pixels[drawn], labels[drawn], pixels[1500:], labels[1500:]


def _nearest(folder: Path, version: int) -> Landed:
    from sklearn.neighbors import KNeighborsClassifier

    pixels, labels, golden, label = digits(version)
    model = KNeighborsClassifier(5).fit(pixels, labels)
    content = to_onnx(model, [_floats("pixels", 64)], options={"zipmap": False})
    return Landed({"model.onnx": content}, {"pixels": golden, "label": label})


def _regressor(folder: Path, version: int) -> Landed:
    from sklearn.ensemble import GradientBoostingRegressor

    def rows(seed: int, count: int) -> tuple[Array, Array]:
        numbers = np.random.default_rng(seed)
        x = numbers.uniform(0, 1, (count, 5)).astype(np.float32)
        price = 20 + 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3]
        return x, (price + numbers.normal(0, 0.5, count)).astype(np.float32)

    x, price = rows(version, 2000)
    golden, label = rows(100, 250)
    model = GradientBoostingRegressor(random_state=version, n_estimators=200).fit(x, price)
    return Landed({"model.onnx": to_onnx(model, [_floats("x", 5)])}, {"x": golden, "label": label})
