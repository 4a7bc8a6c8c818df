"""The model is tried on made-up inputs, in a process of its own: which sizes it takes, and what it really answers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from slipway.cli.beginning import run_model
from slipway.cli.beginning.made_up import Array, Rows, Sizes, made_up, possible_sizes, rows_of
from slipway.cli.failures import CommandError
from slipway.cli.model_files.onnx_file import OnnxFile
from slipway.cli.plain import plain
from slipway_core.errors import SlipwayError
from slipway_core.gates.validation.npz import read_arrays
from slipway_rules.row_axes import RowAxis, take_rows

TRIAL_LIMIT_S = 300.0
ROWS_TRIED = 5
"""Rows sent at once, to see which axis of an answer counts them; few models have as many classes or channels."""
MOST_ANSWERED_VALUES = 2**25
_ANSWER_BYTES = 2**29
_MOST_TRIED = 40
_SEED = 1


@dataclass(frozen=True)
class Seen:
    """An answer: `values` have the rows first, `axis` says where they are in the output itself."""

    values: Array
    axis: RowAxis


@dataclass(frozen=True)
class Trial:
    """What is known after a try.

    :ivar rows: which axis of each input counts the rows.
    :ivar sizes: what the model took; where nothing was tried or taken, a guess.
    :ivar seen: by output what it answered; nothing where it could not be tried.
    :ivar one_by_one: answers do not have the rows of their request, so that each row must be asked alone.
    :ivar problem: why there are no answers; "": there are.
    """

    rows: Rows
    sizes: Sizes
    seen: Mapping[str, Seen] = field(default_factory=dict)
    one_by_one: bool = False
    problem: str = ""


def try_model(model: OnnxFile, *, runs: bool = True, limit_s: float = TRIAL_LIMIT_S) -> Trial:
    """Try the model with several rows, else with a single one, for each size that may fit.

    :param runs: False: nothing is run, and the shapes alone are read.
    """
    rows = rows_of(model)
    sizes = list(islice(possible_sizes(model, rows), _MOST_TRIED))
    together = rows.request_rows or ROWS_TRIED
    tries = [(number, one) for number in dict.fromkeys((together, 1)) for one in sizes]
    if rows.request_rows is not None:
        tries = [one for one in tries if one[0] == together]
    if not runs:
        return Trial(rows, sizes[0], problem="it was not run")
    taken, answer, problem = _first_answer(model, rows, tries, limit_s)
    if answer is None:
        return Trial(rows, sizes[0], problem=problem)
    number, found = taken
    seen = {name: _seen(model, name, values, number) for name, values in answer.items()}
    alone = rows.request_rows is None and (number == 1 or any(one is None for one in seen.values()))
    if alone and number > 1:
        _, answer, problem = _first_answer(model, rows, [(1, found)], limit_s)
        if answer is None:
            return Trial(rows, found, problem=problem)
        seen = {name: _seen(model, name, values, 1) for name, values in answer.items()}
    return Trial(rows, found, {name: one for name, one in seen.items() if one is not None}, one_by_one=alone)


def _seen(model: OnnxFile, name: str, values: Array, rows: int) -> Seen | None:
    """Return an answer with its rows first; None where none of its sizes is their number."""
    axes = [axis for axis, size in enumerate(values.shape) if size == rows]
    named = [axis for axis in axes if _symbol(model, name, axis) in _row_symbols(model)]
    if named or axes:
        axis = (named or axes)[0]
        return Seen(np.moveaxis(values, axis, 0), axis)
    return Seen(values[np.newaxis], "request") if rows == 1 else None


def _symbol(model: OnnxFile, name: str, axis: int) -> str:
    return next(iter(model.symbols.get(name, ())[axis : axis + 1]), "")


def _row_symbols(model: OnnxFile) -> set[str]:
    rows = rows_of(model).axes
    return {
        symbol
        for name, axis in rows.items()
        if isinstance(axis, int) and (symbol := _symbol(model, name, axis))
    }


def _first_answer(
    model: OnnxFile, rows: Rows, tries: Sequence[tuple[int, Sizes]], limit_s: float
) -> tuple[tuple[int, Sizes], dict[str, Array] | None, str]:
    """Return which try was answered first and how; without an answer, why."""
    random = np.random.default_rng(_SEED)

    def requests() -> Iterator[dict[str, Array]]:
        for number, sizes in tries:
            arrays = made_up(model, rows, number, sizes, random)
            yield request_of(arrays, rows, slice(0, number))

    answers, problem = _run(model, requests(), "first", limit_s)
    for (number, sizes), answer in zip(tries, answers, strict=False):
        if answer is not None:
            return (number, sizes), answer, ""
    return tries[0], None, problem


def request_of(arrays: Mapping[str, Array], rows: Rows, taken: slice) -> dict[str, Array]:
    """Return the inputs of a request for these rows of a golden set."""
    return {name: take_rows(arrays[name], axis, taken) for name, axis in rows.axes.items()}


def answered(
    model: OnnxFile, trial: Trial, arrays: Mapping[str, Array], number: int, output: str, limit_s: float
) -> Array:
    """Return an output's answers to a golden set of so many rows, rows first.

    :raises CommandError: there are none, or not one for each row.
    """
    step = 1 if trial.one_by_one else trial.rows.request_rows or number
    slices = [slice(start, start + step) for start in range(0, number, step)]
    requests = (request_of(arrays, trial.rows, one) for one in slices)
    answers, problem = _run(model, requests, "all", limit_s)
    parts = [_part(model, answer, output, step) for answer in answers]
    whole = [one for one in parts if one is not None]
    shapes = {one.shape[1:] for one in whole}
    if len(whole) != len(slices) or len(shapes) != 1:
        found = problem or (
            "answers of different sizes"
            if len(whole) == len(slices)
            else "answers that do not have their rows"
        )
        raise CommandError(f"the model does not answer each of the {number} rows", found=found)
    return np.concatenate(whole)


def _part(model: OnnxFile, answer: Mapping[str, Array] | None, output: str, step: int) -> Array | None:
    if answer is None or output not in answer:
        return None
    seen = _seen(model, output, answer[output], step)
    return None if seen is None or seen.values.shape[0] != step else seen.values


def _run(
    model: OnnxFile, requests: Iterable[Mapping[str, Array]], mode: str, limit_s: float
) -> tuple[list[dict[str, Array] | None], str]:
    """Return the answer to each request, None where there is none, and why."""
    with tempfile.TemporaryDirectory(prefix="slipway-init-") as name:
        folder, count = Path(name), 0
        try:
            for count, request in enumerate(requests, 1):
                write_arrays(folder / f"{count:04}.npz", request)
        except SlipwayError as error:
            if not count:
                raise
            problem = error.what  # larger sizes than those before have no room
        problem = _child(model.path, folder, mode, limit_s)
        answers = [_read(model, folder / f"{place:04}-answer.npz") for place in range(1, count + 1)]
    return answers, problem


def _child(path: Path, folder: Path, mode: str, limit_s: float) -> str:
    """Run the model's process; return what went wrong, in words."""
    program = (sys.executable, run_model.__file__, str(path), str(folder), mode, str(MOST_ANSWERED_VALUES))
    try:
        ended = subprocess.run(
            program, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {limit_s:.0f} s"
    if ended.returncode == run_model.NOT_INSTALLED:
        return "ONNX Runtime is not installed here"
    if ended.returncode:
        return f"it ended the process that ran it, with exit code {ended.returncode}"
    try:
        failures: Any = json.loads((folder / "failures.json").read_text())
    except (OSError, ValueError):
        return "it gave no reason"
    return plain(str(next(iter(failures.values()), "")))[:300] if isinstance(failures, dict) else ""


def _read(model: OnnxFile, path: Path) -> dict[str, Array] | None:
    if not path.is_file():
        return None
    try:
        found = read_arrays(path.read_bytes(), path.name, limit_bytes=_ANSWER_BYTES)
    except SlipwayError:
        return None
    names = model.outputs_in_order
    return {names[int(place)]: values for place, values in found.items() if int(place) < len(names)}


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write the arrays as an `.npz` file without pickles."""
    # `numpy.savez` takes names as arguments, and has arguments of its own.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
