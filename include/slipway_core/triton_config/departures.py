"""Where one configuration is not what another one asks for, both in the canonical form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway_core.triton_config.canonical import is_set
from slipway_core.triton_config.fields import ROOT, fields_of


def departures_of(
    wanted: Mapping[str, Any],
    served: Mapping[str, Any],
    whole: Mapping[str, Any],
    *,
    message: str = ROOT,
    place: str = "",
) -> Iterator[str]:
    """Yield in words where `served` lacks something that `wanted` has.

    In a list that is a set to Triton, each wanted entry needs one entry of its own, wherever it stands: what a server
    fills in, such as the numbers of its GPUs, changes the order.

    :param whole: the configuration that `wanted` is part of.
    :param message: the message that `wanted` is, empty if ModelConfig does not know it.
    """
    for key, value in wanted.items():
        kind = fields_of(message).get(key) if message else None
        spot = _Spot(f"{place}.{key}" if place else key, kind.message if kind else "", whole)
        if kind is not None and kind.form == "map":
            yield from _of_map(value, served.get(key), spot)
        elif kind is not None and kind.form == "list" and is_set(message, key, whole):
            yield from _of_set(value, served.get(key), spot)
        else:
            yield from _of_value(value, served.get(key), spot)


@dataclass(frozen=True)
class _Spot:
    """Where in the configuration something stands, and of which message it is; empty for a scalar."""

    place: str
    message: str
    whole: Mapping[str, Any] = field(repr=False)

    def below(self, step: str) -> _Spot:
        return _Spot(self.place + step, self.message, self.whole)


def _of_value(wanted: Any, served: Any, spot: _Spot) -> Iterator[str]:
    if spot.message and isinstance(wanted, Mapping) and isinstance(served, Mapping):
        yield from departures_of(wanted, served, spot.whole, message=spot.message, place=spot.place)
    elif _are_lists(wanted, served):
        for index, (one, other) in enumerate(zip(wanted, served, strict=True)):
            yield from _of_value(one, other, spot.below(f"[{index}]"))
    elif wanted != served:
        yield f"{spot.place} is {_shown(served)} instead of {_shown(wanted)}"


def _of_map(wanted: Mapping[str, Any], served: Any, spot: _Spot) -> Iterator[str]:
    there = served if isinstance(served, Mapping) else {}
    for key, value in wanted.items():
        yield from _of_value(value, there.get(key), spot.below(f".{key}"))


def _of_set(wanted: Sequence[Any], served: Any, spot: _Spot) -> Iterator[str]:
    if wanted == served:
        return
    if not _are_lists(wanted, served):
        yield from _of_value(wanted, served, spot)
        return
    suits = [
        [index for index, other in enumerate(served) if not any(_of_value(one, other, spot))]
        for one in wanted
    ]
    taken = _paired(suits)
    left = sorted(set(range(len(served))) - taken.keys())
    for index in sorted(set(range(len(wanted))) - set(taken.values())):
        yield from _of_value(wanted[index], served[left.pop(0)], spot.below(f"[{index}]"))


def _paired(suits: Sequence[Sequence[int]]) -> dict[int, int]:
    """Give as many entries as possible one of the others that suit it, each at most once.

    This is a maximum matching in a bipartite graph, found by augmenting paths (Kuhn).

    :param suits: for each entry, which of the others suit it.
    :returns: for each of the others that was given away, the entry that has it.
    """
    taken: dict[int, int] = {}

    def place(one: int, asked: set[int]) -> bool:
        for other in suits[one]:
            if other not in asked:
                asked.add(other)
                if other not in taken or place(taken[other], asked):
                    taken[other] = one
                    return True
        return False

    for one in range(len(suits)):
        place(one, set())
    return taken


def _are_lists(wanted: Any, served: Any) -> bool:
    return isinstance(wanted, list) and isinstance(served, list) and len(wanted) == len(served)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else f"{text[:117]}…"
