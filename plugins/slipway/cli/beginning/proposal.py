"""Which kind of answers a model gives, how sure that is, and why: by shapes, names, operators, and what it answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from slipway.cli.beginning.made_up import is_state
from slipway.cli.beginning.trial import Trial
from slipway.cli.model_files.onnx_file import OnnxFile

Sureness = Literal["sure", "likely", "a guess"]
FLOATS = ("FP16", "FP32", "FP64", "BF16")
_SURE, _LIKELY = 80, 50
_SCORES = re.compile(r".*(prob|softmax|score|logit|class|target_label)", re.IGNORECASE)
_CLASS = re.compile(r".*(label|class|pred|argmax)", re.IGNORECASE)
_VECTOR = re.compile(
    r".*(embed|feature|vector|pool|last_hidden|sentence|fc1|descriptor|latent|emb\b)", re.IGNORECASE
)
_NUMBERS = re.compile(r".*(bbox|box|landmark|coord|keypoint|kpt|points|pose|regress|offset)", re.IGNORECASE)
_BOXES = re.compile(r".*(box|dets?\b|detection)", re.IGNORECASE)
_PROBABILITY = re.compile(r".*(prob|score|conf|sigmoid)", re.IGNORECASE)
_MASKS = re.compile(r".*(mask|seg|logit|sigmoid|prob)", re.IGNORECASE)
_SOFTMAX = frozenset(("Softmax", "LogSoftmax", "TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier"))
_REGRESSORS = frozenset(("TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor"))
# Vectors are as long as these, and few models have so many classes.
_VECTOR_SIZES = frozenset((64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048))
_BOXES_AFTER_SUPPRESSION = 1000
_LARGEST_MASK_STRIDE = 8


@dataclass(frozen=True)
class Proposal:
    """A kind of answers for one output.

    :ivar score: 0 to 100, how well it fits.
    :ivar more: further keys of `validation`, such as the output with the scores of boxes.
    :ivar is_probability: each value of the answers is a probability of its own, yes from 0.5 on.
    """

    kind: str
    output: str
    score: int
    why: str
    more: dict[str, str] = field(default_factory=dict)
    is_probability: bool = False

    @property
    def sureness(self) -> Sureness:
        """How sure it is, in words."""
        return "sure" if self.score >= _SURE else "likely" if self.score >= _LIKELY else "a guess"


@dataclass(frozen=True)
class Output:
    """What is known of an output.

    :ivar row: the sizes of one row; -1: it varies.
    :ivar maker: the operator that makes it.
    :ivar values: what it answered, rows first; None: nothing is known.
    :ivar image: of an image that the model takes, its channels, height and width.
    :ivar varies: the file leaves a size of a row free.
    """

    name: str
    datatype: str
    row: tuple[int, ...]
    maker: str
    values: np.ndarray[Any, Any] | None = None
    image: tuple[int, ...] | None = None
    varies: bool = False

    @property
    def is_float(self) -> bool:
        """Tell whether it holds numbers that are not whole ones."""
        return self.datatype in FLOATS

    @property
    def is_whole(self) -> bool:
        """Tell whether it holds whole numbers."""
        return not self.is_float and self.datatype not in ("BYTES", "BOOL")

    def has(self, test: Callable[[np.ndarray[Any, Any]], bool]) -> bool | None:
        """Tell whether what it answered is such; None: it has answered nothing."""
        if self.values is None or self.values.dtype.kind not in "iuf" or not self.values.size:
            return None
        return bool(test(self.values.astype(np.float64)))


def proposals(model: OnnxFile, trial: Trial) -> list[Proposal]:
    """Return what the model's answers may be, the best first; never an empty list."""
    outputs = outputs_of(model, trial)
    found = [*_box_sets(outputs)]
    for output in outputs:
        other = list(_of(output))
        found += [*other, _custom(output, 25 if other else 50)]
    # What goes back in with the next request is a state and no answer.
    answers = [one for one in found if not is_state(one.output)] or found
    order = {name: place for place, name in enumerate(model.outputs_in_order)}
    return sorted(answers, key=lambda one: (-one.score, order.get(one.output, 0)))


def outputs_of(model: OnnxFile, trial: Trial) -> list[Output]:
    """Return what is known of each output, by the file and by what it answered."""
    image: tuple[int, ...] | None = next(
        (one.shape[1:] for one in model.signature.inputs if len(one.shape) == 4), None
    )
    if image is not None and trial.seen:
        image = tuple(
            size if size > 0 else {1: trial.sizes.image[0], 2: trial.sizes.image[1]}.get(place, 3)
            for place, size in enumerate(image)
        )
    found = []
    for tensor in model.signature.outputs:
        seen = trial.seen.get(tensor.name)
        row = tensor.shape[1:] if seen is None else seen.values.shape[1:]
        if seen is not None and len(tensor.shape) == seen.values.ndim and seen.axis == 0:
            # What the file leaves free, and is as long as the input, varies with it.
            row = tuple(
                -1 if declared < 0 and size == trial.sizes.length and size > 1 else size
                for size, declared in zip(row, tensor.shape[1:], strict=True)
            )
        values = None if seen is None else seen.values
        counts = 0 if seen is None else seen.axis
        free = [size for axis, size in enumerate(tensor.shape) if axis != counts]
        maker = model.makers.get(tensor.name, "")
        found.append(Output(tensor.name, tensor.datatype, row, maker, values, image, -1 in free))
    return found


def _of(one: Output) -> Iterator[Proposal]:
    """Yield what one output may be; its number of sizes says most of it."""
    if one.datatype == "BYTES":
        if _is_single(one):
            yield Proposal("text", one.name, 85, "one text for each row")
    elif _is_single(one):
        yield from _single(one)
    elif len(one.row) == 1:
        yield from _flat(one)
    elif len(one.row) == 2 and one.row[1] == 6 and one.is_float:
        yield from _boxes(one)
    elif one.image is not None and len(one.row) in (2, 3):
        yield from _masks(one)
    if len(one.row) in (2, 3) and one.is_float and not one.varies and _is_vector(one):
        sizes = "x".join(str(size) for size in one.row)
        yield Proposal(
            "vectors", one.name, 60 if _VECTOR.match(one.name) else 55, f"a vector of {sizes} for each row"
        )


def _is_vector(one: Output) -> bool:
    """Tell whether one of several sizes alone is not 1, and the values are no scores by class."""
    return one.maker not in _SOFTMAX and sum(size != 1 for size in one.row) == 1


def _is_single(one: Output) -> bool:
    return all(size == 1 for size in one.row) and len(one.row) <= 1


def _single(one: Output) -> Iterator[Proposal]:
    """Yield what one number a row may be: a class, a probability, or a quantity."""
    if one.is_whole or one.datatype == "BOOL":
        if one.is_whole:
            is_class = _CLASS.match(one.name) or one.maker == "ArgMax"
            yield Proposal(
                "classification", one.name, 75 if is_class else 60, "a whole number for each row: a class"
            )
        return
    between = one.has(lambda values: bool(values.min() >= 0 and values.max() <= 1))
    if one.maker == "Sigmoid" or (_PROBABILITY.match(one.name) and between is not False):
        why = "a sigmoid" if one.maker == "Sigmoid" else "its name"
        yield Proposal(
            "custom", one.name, 85 if one.maker == "Sigmoid" else 60, f"one probability a row ({why})"
        )
    elif one.maker in _REGRESSORS:
        yield Proposal("regression", one.name, 90, f"a number for each row, from {one.maker}")
    else:
        unsure = " although all of them lie between 0 and 1" if between else ""
        yield Proposal("regression", one.name, 55 if between else 65, f"a number for each row{unsure}")


def _flat(one: Output) -> Iterator[Proposal]:
    """Yield what several numbers a row may be: scores by class, labels of their own, a vector, quantities."""
    size = one.row[0]
    if not one.is_float:
        return
    sums = one.has(lambda values: bool(values.min() >= 0 and np.allclose(values.sum(axis=-1), 1, atol=1e-3)))
    if sums or one.maker in _SOFTMAX:
        why = "probabilities that sum to 1" if sums else one.maker
        yield Proposal("classification", one.name, 95, f"scores of {_number(size)} classes: {why}")
        return
    if one.maker == "Sigmoid":
        reason = f"{_number(size)} probabilities a row, each of its own (a sigmoid): several labels"
        yield Proposal("custom", one.name, 85, reason, is_probability=True)
        return
    unit = one.has(lambda values: bool(np.allclose(np.linalg.norm(values, axis=-1), 1, atol=1e-3)))
    if unit or one.maker == "LpNormalization" or _VECTOR.match(one.name):
        why = "of length 1" if unit or one.maker == "LpNormalization" else "by its name"
        yield Proposal("vectors", one.name, 90, f"a vector of {_number(size)} numbers a row, {why}")
    elif _NUMBERS.match(one.name):
        yield Proposal("custom", one.name, 60, f"{_number(size)} quantities a row, by its name")
    elif _SCORES.match(one.name):
        yield Proposal("classification", one.name, 85, f"scores of {_number(size)} classes, by its name")
    elif size < 0:
        yield Proposal("custom", one.name, 45, "a list a row, whose size varies")
    elif size in _VECTOR_SIZES:
        yield Proposal("vectors", one.name, 55, f"{size} numbers a row, as vectors have them")
        yield Proposal("classification", one.name, 40, f"it may be the scores of {size} classes")
    else:
        yield Proposal("classification", one.name, 60, f"{size} numbers a row: scores of so many classes")
        yield Proposal("vectors", one.name, 35, f"it may be a vector of {size} numbers")


def _boxes(one: Output) -> Iterator[Proposal]:
    """Yield detections where six numbers a box can be: corners, score, class."""
    reason = "boxes of six numbers: corners, score, class"
    if one.values is None or not one.values.size:
        few = 0 <= one.row[0] <= _BOXES_AFTER_SUPPRESSION or _BOXES.match(one.name)
        yield Proposal("detections", one.name, 60 if few else 40, reason)
        return
    boxes = one.values.reshape(-1, 6).astype(np.float64)
    score, number = boxes[:, 4], boxes[:, 5]
    fits = score.min() >= 0 and score.max() <= 1 and np.allclose(number, np.round(number))
    if fits and bool((boxes[:, 2:4] >= boxes[:, :2]).all()):
        yield Proposal("detections", one.name, 80, reason)


def _box_sets(outputs: list[Output]) -> Iterator[Proposal]:
    """Yield detections whose boxes, scores and classes are outputs of their own."""
    for boxes in outputs:
        if len(boxes.row) != 2 or boxes.row[1] != 4 or not boxes.is_float:
            continue
        others = [
            one
            for one in outputs
            if one is not boxes and len(one.row) == 1 and one.row[0] in (boxes.row[0], -1)
        ]
        scores = next(
            (one for one in others if one.is_float and re.search("score|conf|prob", one.name, re.I)), None
        )
        scores = scores or next((one for one in others if one.is_float), None)
        if scores is None:
            continue
        rest = [one for one in others if one is not scores]
        classes = next(
            (one for one in rest if one.is_whole or re.search("class|label", one.name, re.I)), None
        )
        more = {"scores_output": scores.name} | ({"classes_output": classes.name} if classes else {})
        yield Proposal("detections", boxes.name, 88, "boxes of four numbers, with separate scores", more)


def _masks(one: Output) -> Iterator[Proposal]:
    """Yield segmentation where a map of the image's size comes out of an image."""
    sizes, (channels, *size) = one.row[-2:], one.image or (0,)
    near = all(
        out == -1 or taken == -1 or (out <= taken <= out * _LARGEST_MASK_STRIDE)
        for out, taken in zip(sizes, size, strict=False)
    )
    layers = one.row[0] if len(one.row) == 3 else 0
    if not near or min(sizes) in (0, 1):
        return
    if one.is_whole:
        if layers == 0:
            yield Proposal("segmentation", one.name, 85, "a class for each pixel of an image")
        return
    between = one.has(lambda values: bool(values.min() >= 0 and values.max() <= 1))
    if layers <= 1:
        if layers == 1 and (
            one.maker == "Sigmoid" or between or (between is None and _MASKS.match(one.name))
        ):
            yield Proposal("segmentation", one.name, 85, "a probability for each pixel of an image")
        return
    by_name = one.maker in _SOFTMAX or _MASKS.match(one.name)
    if by_name or layers != channels:
        why = f"scores of {_number(layers)} classes for each pixel"
        yield Proposal("segmentation", one.name, 85 if by_name else 60, why)


def _custom(one: Output, score: int) -> Proposal:
    sizes = ", ".join(_number(size) for size in one.row) or "one number"
    return Proposal("custom", one.name, score, f"no other kind knows answers of [{sizes}] a row")


def _number(size: int) -> str:
    return str(size) if size >= 0 else "any number of"
