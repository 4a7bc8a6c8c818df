"""Trees as texts: JSON and YAML, sound or damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import yaml

from benchmarks.fuzz import mutate
from benchmarks.fuzz.interesting import LONG_DIGITS, LONG_NUMBER

_DAMAGED = 0.25
_DEEP, _DEEP_ONE_IN = 100_000, 200


def json_bytes(tree: Any) -> bytes:
    """Return the tree as JSON, as Python writes it: NaN and Infinity are words of it.

    What is too deep for Python to write is nothing but depth.
    """
    try:
        return _written(json.dumps(tree))
    except RecursionError:
        return b"[" * _DEEP


def yaml_bytes(tree: Any) -> bytes:
    """Return the tree as YAML; as JSON, which is YAML too, where a text has no characters there."""
    try:
        return _written(yaml.dump(tree, allow_unicode=True, sort_keys=False, Dumper=_Dumper))
    except (UnicodeEncodeError, RecursionError):
        return json_bytes(tree)


def mutated_json(rng: Random, seeds: Sequence[Any]) -> bytes:
    """Return a changed tree as JSON, some of them with damaged bytes."""
    return _damaged(rng, json_bytes, seeds)


def mutated_yaml(rng: Random, seeds: Sequence[Any]) -> bytes:
    """Return a changed tree as YAML, some of them with damaged bytes."""
    return _damaged(rng, yaml_bytes, seeds)


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _damaged(rng: Random, write: Any, seeds: Sequence[Any]) -> bytes:
    text: bytes = write(mutate.tree(rng, seeds))
    if rng.randrange(_DEEP_ONE_IN) == 0:
        text = text.replace(b"1", b"[" * _DEEP + b"1" + b"]" * _DEEP, 1)
    return mutate.some_bytes(rng, [text]) if rng.random() < _DAMAGED else text


def _written(text: str) -> bytes:
    text = text.replace(f'"{LONG_NUMBER}"', LONG_DIGITS).replace(f"'{LONG_NUMBER}'", LONG_DIGITS)
    return text.encode("utf-8", "surrogatepass")
