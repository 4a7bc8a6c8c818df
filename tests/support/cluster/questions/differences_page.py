"""The tables of docs/emulator-differences.md, made of the known differences.

python -m tests.support.cluster.questions.differences_page
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.cluster.questions.known_differences import (
    KNOWN_DIFFERENCES,
    KNOWN_STATUS_DIFFERENCES,
    KnownStatusDifference,
)
from tests.support.cluster.questions.recorded_conditions import situations

PAGE = Path(__file__).resolve().parents[4] / "docs" / "emulator-differences.md"


def tables() -> Mapping[str, str]:
    """Return the tables by their names."""
    return {
        "answers": _table(
            ("question", "the real server", "the emulator", "why"),
            ((one.question, one.real, one.emulated, one.reason) for one in KNOWN_DIFFERENCES),
        ),
        "status": _table(
            ("mode", "place", "when", "the real one says", "the emulator says", "why"),
            (
                (
                    one.mode,
                    f"`{one.place}`",
                    _when(one),
                    one.real,
                    one.emulated,
                    one.reason,
                )
                for one in KNOWN_STATUS_DIFFERENCES
            ),
        ),
    }


def _when(known: KnownStatusDifference) -> str:
    """Return in which situations, in words."""
    every = {one.name for one in situations() if one.mode == known.mode}
    return "always" if set(known.situations) == every else ", ".join(known.situations)


def with_tables(page: str) -> str:
    """Return the page with its tables as they should be; each lies between two comments that name it."""
    for name, table in tables().items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = pattern.sub(lambda found, table=table: f"{found[1]}\n{table}\n{found[2]}", page)
    return page


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
