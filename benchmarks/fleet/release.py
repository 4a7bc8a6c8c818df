"""Slipway's release of a fleet, called as any program may call it; imported only in processes of their own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fleet.job import FLEET, Job
from benchmarks.fleet.model import MADE_BY
from slipway.fleet import (
    FleetPolicy,
    FleetRelease,
    FleetStore,
    GoldenRequest,
    StaticMembers,
    release_fleet,
    server_at,
)
from slipway.fleet import release as carried_out
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway_digit_models.images import training_and_held_out
from slipway_sandbox.host.ports import LOOPBACK

_GOLDEN_ROWS = 8
_SETTLE_LIMIT_S = 15.0
_LOAD_LIMIT_S = 60.0
_DRAIN_LIMIT_S = 30.0


def _golden() -> GoldenRequest:
    _, held_out = training_and_held_out()
    return GoldenRequest({"pixels": held_out.first(_GOLDEN_ROWS).pixels}, ("probabilities", MADE_BY))


# Made when this module is imported, in the process that all others are forked from: it takes seconds.
GOLDEN = _golden()


def release(job: Job, steps: Path) -> dict[str, Any]:
    """Carry the job out; each step is written to `steps` first. Return what came of it, as JSON has it."""
    decide = carried_out.next_step

    def recorded(*given: Any) -> Any:
        step = decide(*given)
        _note(steps, step.act, step.servers)
        return step

    carried_out.next_step = recorded
    store = ModelStoreHook(job.bucket)
    registry = ModelRegistry(store)
    manifest, manifest_sha256 = registry.require_with_digest(job.model, job.version)
    outcome = asyncio.run(
        release_fleet(
            FleetRelease(
                fleet=FLEET,
                model=job.model,
                version=job.version,
                manifest_sha256=manifest_sha256,
                configs=registry.configs(manifest),
                members=_members(job),
                store=FleetStore(store, FLEET, job.model),
                run_id=job.run_id,
                permit=lambda: None,
                golden=GOLDEN,
                policy=FleetPolicy(
                    on_unreachable=job.on_unreachable,
                    unreachable_s=job.unreachable_s,
                    settle_limit_s=_SETTLE_LIMIT_S,
                    load_limit_s=_LOAD_LIMIT_S,
                    drain_limit_s=_DRAIN_LIMIT_S,
                ),
                # One that was left was killed, or has given up.
                is_running=lambda run_id: False,
            )
        )
    )
    return outcome.model_dump(mode="json")


def _members(job: Job) -> StaticMembers:
    return StaticMembers(
        {
            name: server_at(name, LOOPBACK, http, grpc_port=grpc_port)
            for name, (http, grpc_port) in job.ports.items()
        }
    )


def _note(steps: Path, act: str, servers: Sequence[str]) -> None:
    row = json.dumps({"at": time.time(), "act": act, "servers": list(servers)})
    with steps.open("a", encoding="utf-8") as file:
        print(row, file=file)
