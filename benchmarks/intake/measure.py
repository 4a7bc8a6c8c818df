"""`intake_requests_per_sweep`: what a sweep for new versions costs in a bucket with the history of years.

100 models, 50 versions of each, 300 events of each release, and one version that is new. S3 is
benchmarks/intake/store.py in a process of its own, the task another; the start of its interpreter is not counted.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.figure import Figure, MeasureError
from benchmarks.processes import run, server
from benchmarks.sorted_store import BUCKET

MODELS, VERSIONS, EVENTS = 100, 50, 300


def measure() -> Figure:
    """Return the requests to S3 of a sweep that finds one new version; its seconds and an event's cost in the note."""
    size = [str(number) for number in (MODELS, VERSIONS, EVENTS)]
    key = f"incoming/model-{MODELS // 2:03}/{VERSIONS + 1}/ready.json"
    record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": BUCKET}, "object": {"key": key}}}
    with server([sys.executable, "-m", "benchmarks.intake.store", *size]) as endpoint:
        sweep, event = _run(endpoint), _run(endpoint, json.dumps({"Records": [record]}))
    if (sweep["started"], event["started"]) != (1, 1):
        raise MeasureError(f"The new version was to be found; the sweep has {sweep}, its event {event}.")
    asked = sweep["requests"]
    note = (
        f"{asked['LIST']} LIST and {asked['GET']} GET in {sweep['seconds']:.1f} s; "
        f"{MODELS} models, {VERSIONS} versions, {EVENTS} events; "
        f"an event: {sum(event['requests'].values())} in {event['seconds']:.1f} s"
    )
    return Figure("intake_requests_per_sweep", sum(asked.values()), "requests", note=note)


def _run(endpoint: str, message: str = "") -> dict[str, Any]:
    """Return what one run of the task says of itself."""
    said = run([sys.executable, "-m", "benchmarks.intake.process", endpoint, BUCKET], message)
    outcome: dict[str, Any] = json.loads(said.splitlines()[-1])
    return outcome
