"""The clients of a sample model: they send handwritten digits until they are interrupted, and say what was answered."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from slipway_core.identifiers import validate_model_name
from slipway_sandbox.demo.counts import Snapshot
from slipway_sandbox.demo.traffic import TrafficClient
from slipway_sandbox.host.settings import SandboxSettings, sandbox_root

EVERY_S = 5.0


def main(arguments: Sequence[str]) -> int:
    """Send requests until interrupted; return 0.

    :raises SettingsError: no sandbox runs.
    """
    parser = argparse.ArgumentParser(
        prog="make traffic ARGS=…",
        description="Send handwritten digits to a model of the sandbox, by HTTP and gRPC, until Ctrl-C.",
    )
    parser.add_argument("--model", default="digits", help="a model that answers digits, such as a sample's")
    parser.add_argument("--rps", type=float, default=20.0, help="requests a second, 1 to 200 (20)")
    options = parser.parse_args(arguments)
    if not 1 <= options.rps <= 200:
        parser.error(f"--rps is {options.rps:g}: expected 1 to 200")
    model, settings = validate_model_name(options.model), SandboxSettings.load()
    console = Console(highlight=False)
    console.print(f"Sending {options.rps:g} requests a second to {model}, until Ctrl-C.")
    with tempfile.TemporaryDirectory(prefix="slipway-traffic-") as folder:
        client = TrafficClient(
            port=settings.ports.ingress,
            authority=settings.service_host(model),
            model=model,
            rate_rps=options.rps,
            output=Path(folder) / "answers.jsonl",
            sandbox_root=sandbox_root(),
        )
        with client:
            try:
                while True:
                    time.sleep(EVERY_S)
                    console.print(traffic_summary(client.traffic().last))
            except KeyboardInterrupt:
                pass
        console.print(f"In all: {traffic_summary(client.traffic().last)}")
    return 0


def traffic_summary(seen: Snapshot) -> str:
    """Return the counts so far in one line."""
    if not seen.requests:
        return "no answer yet: the model has no version, or none that is ready"
    by_version = ", ".join(
        f"{count:,} by version {version}" for version, count in sorted(seen.answered_by.items())
    )
    return f"{seen.requests:,} requests: {by_version or 'none answered'}; {seen.failed:,} failed, {seen.wrong:,} wrong"
