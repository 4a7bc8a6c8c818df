"""What a person has set: freezes, what lifts them, and release windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from pydantic import ValidationError

from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.operations.freezes import (
    FreezeUnreadableError,
    freeze,
    is_lifted,
    lifted,
    lifted_key,
    parse_freeze,
    parse_freeze_name,
)
from slipway_core.operations.windows import is_open, next_opening
from slipway_core.spec.rollout.release_windows import ReleaseWindow

_NOW = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
_KEY, _CONTENT = freeze(
    "digits", who="bob", now=_NOW, until=_NOW + timedelta(days=3), reason="audit", run_id="manual__1"
)
_FREEZE = parse_freeze(_CONTENT, _KEY)
_, _LIFTED = lifted(_FREEZE, who="carol", now=_NOW, reason="it is over")
_FREEZES: tuple[dict[str, Any], ...] = (
    {
        "kind": "freeze",
        "model": "digits",
        "by": "bob",
        "at": "2026-03-28T23:30:00Z",
        "until": "2026-03-31T23:30:00Z",
        "reason": "audit",
    },
)
_LIFTS: tuple[dict[str, Any], ...] = (
    {
        "kind": "lifted",
        "by": "carol",
        "at": "2026-03-28T23:30:00Z",
        "reason": "it is over",
        "freeze_sha256": _FREEZE.sha256,
    },
)
_WINDOWS: tuple[dict[str, Any], ...] = (
    {"days": ["mon", "sat", "sun"], "opens": "22:00", "closes": "03:30", "time_zone": "Europe/Berlin"},
    {"days": ["sun"], "opens": "02:10", "closes": "02:50", "time_zone": "Australia/Lord_Howe"},
    {"days": ["sun"], "opens": "00:00", "closes": "24:00"},
)


def _read_freeze(content: bytes) -> None:
    one = parse_freeze(content, _KEY)
    if one.model != "digits" or one.until != _FREEZE.until:
        raise BrokenPromiseError("another freeze than its key says")


def _read_lift(content: bytes) -> None:
    if is_lifted(content, lifted_key(_KEY), _FREEZE) and _FREEZE.sha256.encode() not in content:
        raise BrokenPromiseError("lifted by what does not name it")


def _read_window(content: bytes) -> None:
    one = ReleaseWindow.model_validate_json(content)
    opens = next_opening([one], _NOW)
    if opens is not None and not is_open([one], opens):
        raise BrokenPromiseError("closed when it opens")


def _names(rng: Random, seeds: Sequence[str]) -> str:
    name = rng.choice(seeds)
    at = rng.randrange(len(name))
    return name[:at] + rng.choice(("", "/", "٣", "~", "\n", "0" * 40, "..", ".lifted")) + name[at:]


TARGETS = (
    Target(
        "freeze",
        lambda: [_CONTENT, *(json_bytes(tree) for tree in _FREEZES)],
        lambda rng, _: mutated_json(rng, _FREEZES),
        _read_freeze,
        typed=(FreezeUnreadableError,),
    ),
    Target(
        "freeze_lifted",
        lambda: [_LIFTED, *(json_bytes(tree) for tree in _LIFTS)],
        lambda rng, _: mutated_json(rng, _LIFTS),
        _read_lift,
        typed=(FreezeUnreadableError,),
    ),
    Target(
        "freeze_key", lambda: [_KEY, lifted_key(_KEY)], _names, lambda key: parse_freeze_name(key, "digits")
    ),
    Target(
        "release_window",
        lambda: [json_bytes(tree) for tree in _WINDOWS],
        lambda rng, _: mutated_json(rng, _WINDOWS),
        _read_window,
        typed=(ValidationError,),
    ),
)
