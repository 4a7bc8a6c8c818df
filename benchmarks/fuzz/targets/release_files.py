"""Release files, what a run's parameters change in them, policies, and the release run that travels between tasks."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from benchmarks.fuzz import mutate
from benchmarks.fuzz.documents import json_bytes, mutated_json, mutated_yaml, yaml_bytes
from benchmarks.fuzz.target import Target
from slipway.release_run import ReleaseRun
from slipway_core.canary.recordings import read_policy
from slipway_core.spec.release_file import (
    ReleaseSpec,
    apply_overrides,
    load_release_spec,
    parse_release_spec,
)

_RELEASES = Path(__file__).resolve().parents[3] / "include" / "releases"
_SOURCE = {"format": "onnx"}
# Each says something that the others do not.
_FILES: tuple[dict[str, Any], ...] = (
    {"model": "digits", "source": _SOURCE},
    {
        "model": "words",
        "source": {"format": "onnx", "model_file": "m.onnx"},
        "serving": {
            "max_batch_size": 8,
            "dynamic_batching": {"preferred_batch_sizes": [4, 8], "priority_levels": 2, "default_priority_level": 1},
            "instances": [{"kind": "gpu", "count": 2, "gpus": [0, 1]}],
            "optimization": {"priority": "max", "cuda": {"graphs": True}},
            "parameters": {"a": "b"},
            "metric_tags": {"team": "x"},
            "warmup": [{"name": "one", "batch_size": 1, "inputs": {"x": "zero"}, "shapes": {"x": [3]}}],
        },
        "rollout": {
            "steps": [{"weight": 5, "bake_s": 60}, {"weight": 50, "bake_s": 60}],
            "metrics": {"source": "prometheus", "queries": "istio"},
            "mirror_comparison": {"requests": 50},
            "preview": {},
        },
    },
    {"model": "talk", "source": _SOURCE, "serving": {"dynamic_batching": None, "response_cache": True}},
    {"model": "fast", "source": _SOURCE, "conversion": {"target": "tensorrt", "precision": "fp16"}},
)  # fmt: skip


@cache
def _trees() -> tuple[Any, ...]:
    known = tuple(yaml.safe_load(path.read_text()) for path in sorted(_RELEASES.glob("*.yaml")))
    return (*known, *_FILES)


@cache
def _spec() -> ReleaseSpec:
    return parse_release_spec(yaml_bytes(_trees()[0]).decode(), "seed.yaml")


def _read_file(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(content)
        file.flush()
        spec = load_release_spec(Path(file.name))
    # What is read is written into the release run, and read there by each task.
    parse = ReleaseSpec.model_validate_json
    assert parse(spec.model_dump_json(exclude_unset=True)) == spec


_CONFS: tuple[dict[str, Any], ...] = (
    {"rollout": {"steps": [{"weight": 5, "bake_s": 60}], "analysis": {"alpha": 0.05}}},
    {"benchmark": {"requests": 100, "slo": {"p99_ms": 50}}, "validation": {"accuracy_min": 0.5}},
    {"serving": {"instances": [{"kind": "cpu", "count": 2}], "parameters": {"a": "b"}}},
)


def _conf(rng: Random, _: Any) -> Any:
    changed = mutate.tree(rng, (*_CONFS, *_trees()))
    return changed if isinstance(changed, dict) else {"serving": changed}


def _read_policy(content: bytes) -> None:
    read_policy(content.decode("utf-8", "replace"), "policy.yaml")


def _release_runs() -> list[Any]:
    release_run = ReleaseRun(
        release_id="manual__1",
        model="digits",
        version=3,
        bucket="b",
        spec=_spec(),
        stable={"version": 2, "storage_uri": "s3://b/models/digits/2/repository/"},  # type: ignore[arg-type]
    )
    return [release_run.model_dump(mode="json")]


def _read_release_run(content: bytes) -> None:
    ReleaseRun.parse(content.decode("utf-8", "replace"))


TARGETS = (
    Target(
        "release_file",
        lambda: [yaml_bytes(tree) for tree in _trees()],
        lambda rng, _: mutated_yaml(rng, _trees()),
        _read_file,
    ),
    Target(
        "run_conf",
        lambda: list(_CONFS),
        _conf,
        lambda value: apply_overrides(_spec(), value, "the run's conf"),
    ),
    Target(
        "policy_file",
        lambda: [b"alpha: 0.01\n", b'{"alpha": 0.05}', *(yaml_bytes(tree) for tree in _trees()[:1])],
        lambda rng, _: mutated_yaml(rng, [{"alpha": 0.01, "latency_quantile": 0.9}, {"alpha": 0.05}]),
        _read_policy,
    ),
    Target(
        "release_run",
        lambda: [json_bytes(tree) for tree in _release_runs()],
        lambda rng, _: mutated_json(rng, _release_runs()),
        _read_release_run,
    ),
)
