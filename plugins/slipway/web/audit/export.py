"""The audit as files for other programs: CSV and JSON lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from slipway.web import wording
from slipway_core.read_model.person_acts import PersonAct

COLUMNS = ("at", "by", "act", "model", "version", "reason", "agreed_by", "run", "source")
# A spreadsheet takes a cell that begins so for a formula, and would compute it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(acts: Iterable[PersonAct]) -> str:
    """Return a table with a head; no cell of it is a formula to a spreadsheet."""
    written = io.StringIO(newline="")
    table = csv.writer(written, quoting=csv.QUOTE_ALL)
    table.writerow(COLUMNS)
    for act in acts:
        version = "" if act.version is None else str(act.version)
        cells = (
            wording.iso(act.at),
            act.by,
            act.act,
            act.model,
            version,
            act.reason,
            act.agreed_by,
            act.run,
            act.source,
        )
        table.writerow([_no_formula(cell) for cell in cells])
    return written.getvalue()


def to_json_lines(acts: Iterable[PersonAct]) -> str:
    """Return one JSON document a line."""
    return "".join(f"{act.model_dump_json()}\n" for act in acts)


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
