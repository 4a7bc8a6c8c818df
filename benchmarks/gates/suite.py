"""`gate_mutation_score`: how many damaged models the default gates catch before any user meets them, in percent.

Five real models, each damaged in every way of `mutations` that applies; the stable version is the undamaged one, and
the golden sets are drawn anew for each. And a network with nine outputs, trained anew with twenty seeds over another
one: whole, and with one damaged output next to the scored one (`second_outputs`). A damage that the gates let through
and that changes fewer than 2 % of the answers to other rows is harmless, and is listed separately. And a hundred runs
of undamaged models, of which none may be refused. The result of each is in
`.sandbox/bench/gate_mutation_score.json`.
"""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

from benchmarks.figure import Figure, MeasureError
from benchmarks.gates.gated import (
    Ask,
    answers_of,
    changed_share,
    gate,
    in_process,
    signature_of,
    whole_answers,
)
from benchmarks.gates.mutations import MUTATIONS, damaged
from benchmarks.gates.second_outputs import damaged_output, damages, with_second_outputs
from benchmarks.gates.subject import Subject
from benchmarks.gates.subjects import subjects
from benchmarks.sandbox import PROJECT_ROOT
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.kind import kind_of

SEED = 16
UNDAMAGED_RUNS = 20
STABLE_SEED = 100
HARM_SHARE = 0.02
_TABLE = PROJECT_ROOT / ".sandbox" / "bench" / "gate_mutation_score.json"


def measure() -> Figure:
    """Take the figure.

    :raises MeasureError: an undamaged model was refused.
    """
    rows = [row for subject in subjects() for row in _of_subject(subject)] + _of_second_outputs()
    damages = [row for row in rows if row["damage"] and row["verdict"] != "harmless"]
    caught = [row for row in damages if row["verdict"] != "passed"]
    refused = [row for row in rows if not row["damage"] and row["verdict"] != "passed"]
    undamaged = sum(not row["damage"] for row in rows)
    harmless = sum(row["verdict"] == "harmless" for row in rows)
    _TABLE.parent.mkdir(parents=True, exist_ok=True)
    _TABLE.write_text(json.dumps({"seed": SEED, "rows": rows}, indent=1))
    if refused:
        raise MeasureError(f"{len(refused)} undamaged models were refused; see {_TABLE}")
    note = (
        f"{len(caught)} of {len(damages)} damaged models, {harmless} more change fewer than {HARM_SHARE:.0%} of "
        f"the answers to other rows; undamaged refused: "
        f"{len(refused)} of {undamaged}; seed {SEED}"
    )
    return Figure("gate_mutation_score", 100 * len(caught) / len(damages), "%", note=note)


def _of_subject(subject: Subject) -> list[dict[str, Any]]:
    whole = subject.model.SerializeToString()
    ask = in_process(whole)
    found: list[dict[str, Any]] = []
    for number in range(UNDAMAGED_RUNS):
        arrays = subject.golden(SEED + number)
        stable = _answers(subject, arrays, ask)
        verdict = gate(subject, whole, arrays, stable)
        found.append(_row(subject, "", verdict.caught_by or "passed", verdict.reason, SEED + number))
    for name in MUTATIONS:
        seed = SEED + zlib.crc32(f"{subject.name} {name}".encode()) % 1_000_000
        content = damaged(name, subject, seed)
        if content is None:
            continue
        arrays = subject.golden(seed)
        stable = _answers(subject, arrays, ask)
        verdict = gate(subject, content, arrays, stable)
        caught = verdict.caught_by or ("harmless" if _is_harmless(subject, content, ask, seed) else "passed")
        found.append(_row(subject, name, caught, verdict.reason, seed))
        print(f"  {subject.name:<16} {name:<38} {caught}", file=sys.stderr, flush=True)
    return found


def _of_second_outputs() -> list[dict[str, Any]]:
    """Release models that were trained anew over another one: whole, and with one damaged output that is not scored."""
    stable = with_second_outputs(STABLE_SEED)
    ask = in_process(stable.model.SerializeToString())
    found: list[dict[str, Any]] = []
    runs = [("", "", seed) for seed in range(1, UNDAMAGED_RUNS + 1)]
    runs += [(name, damage, 1 + place % UNDAMAGED_RUNS) for place, (name, damage) in enumerate(damages())]
    for name, damage, seed in runs:
        subject = with_second_outputs(seed)
        model = subject.model
        content = damaged_output(model, name, damage) if damage else model.SerializeToString()
        arrays = subject.golden(SEED + seed)
        golden = golden_from_arrays(arrays, signature_of(model), "label")
        answers, whole = answers_of(stable, golden, ask), whole_answers(stable, golden, ask)
        verdict = gate(subject, content, arrays, answers, stable_whole=whole)
        damaged = f"output `{name}`: {damage}" if damage else ""
        found.append(_row(subject, damaged, verdict.caught_by or "passed", verdict.reason, SEED + seed))
        print(f"  {subject.name:<16} {damaged:<38} {found[-1]['verdict']}", file=sys.stderr, flush=True)
    return found


def _is_harmless(subject: Subject, content: bytes, undamaged: Ask, seed: int) -> bool:
    """Tell whether users would hardly notice: on golden sets that the gates have not seen few answers change."""
    damaged_ask = in_process(content)
    sets = [subject.golden(seed + number) for number in (1, 2, 3)]
    changed = [
        changed_share(subject, _answers(subject, arrays, damaged_ask), _answers(subject, arrays, undamaged))
        for arrays in sets
    ]
    return sum(changed) / len(changed) < HARM_SHARE


def _answers(subject: Subject, arrays: Any, ask: Any) -> Any:
    validation = subject.validation
    golden = golden_from_arrays(
        arrays,
        signature_of(subject.model),
        validation.label,
        labelled=kind_of(validation).labels,
        row_axis=subject.row_axis,
    )
    return answers_of(subject, golden, ask)


def _row(subject: Subject, damage: str, verdict: str, reason: str, seed: int) -> dict[str, Any]:
    return {"model": subject.name, "damage": damage, "verdict": verdict, "reason": reason, "seed": seed}
