"""The release files of these tests: the project's own for digits, and what each story changes in it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from include.sandbox.settings import PROJECT_ROOT

DIGITS = "digits"
MAGIKA = "magika"
ONE_AT_A_TIME = "digits-one-at-a-time"
ON_CALL = "digits-on-call"
ON_GPU = "digits-on-gpu"
SURVIVING = "digits-surviving"
ORPHANED = "digits-orphaned"

LONG_CANARY: dict[str, Any] = {"steps": [{"weight": 50, "bake_s": 240}], "window_s": 2, "max_bake_s": 280}
SHORT_CANARY: dict[str, Any] = {
    "steps": [{"weight": 50, "bake_s": 10}, {"weight": 80, "bake_s": 10}],
    "window_s": 2,
    "max_bake_s": 60,
}
# Long enough for a triggerer to die and another to take over, and then for a scheduler to die. Nobody renews the lease
# from the end of the step until a scheduler is there, which on a busy machine takes its time.
CANARY_OF_A_SURVIVOR: dict[str, Any] = {
    "steps": [{"weight": 50, "bake_s": 20}],
    "window_s": 2,
    "max_bake_s": 60,
    "lease_s": 600,
}
ORPHANED_LEASE_S = 15
# The judge does not look before Airflow is dead; the guard does not wait long.
CANARY_OF_AN_ORPHAN: dict[str, Any] = {
    "steps": [{"weight": 50, "bake_s": 120}],
    "window_s": 60,
    "max_bake_s": 120,
    "lease_s": ORPHANED_LEASE_S,
}
NO_SUCH_GPU = 99
TWO_PRECISIONS: dict[str, Any] = {
    "variants": {"whole": {}, "rough": {"precision": "int8", "parity": {"abs_tolerance": 1e-9}}}
}


def write_release_files(folder: Path) -> None:
    """Fill `folder` with one release file for each model of the stories."""
    folder.mkdir(parents=True, exist_ok=True)
    digits = yaml.safe_load((PROJECT_ROOT / "include" / "releases" / "digits.yaml").read_text())
    # Several releases share the machine here, which says nothing about the models' speed.
    digits["benchmark"] |= {"slo": {"p99_ms": 10_000}, "max_regression_percent": 1000, "requests": 100}
    refuse = {"on_concurrent_release": "refuse"}
    gpu = {"instances": [{"kind": "gpu", "count": 1, "gpus": [NO_SUCH_GPU]}]}
    variants = [
        digits,
        _variant(digits, ONE_AT_A_TIME, rollout={**LONG_CANARY, **refuse}),
        _variant(digits, ON_CALL, conversion=TWO_PRECISIONS, rollout={**SHORT_CANARY, "preview": {}}),
        _variant(digits, ON_GPU, serving=gpu),
        _variant(digits, SURVIVING, rollout=CANARY_OF_A_SURVIVOR),
        _variant(digits, ORPHANED, rollout=CANARY_OF_AN_ORPHAN),
    ]
    for variant in variants:
        (folder / f"{variant['model']}.yaml").write_text(yaml.safe_dump(variant, sort_keys=False))
    shutil.copyfile(Path(__file__).parent / "releases" / "magika.yaml", folder / "magika.yaml")


def _variant(digits: dict[str, Any], model: str, **parts: dict[str, Any]) -> dict[str, Any]:
    """`digits` under another name, with some keys of some parts replaced."""
    changed = {part: {**digits[part], **keys} for part, keys in parts.items()}
    return {**digits, **changed, "model": model}
