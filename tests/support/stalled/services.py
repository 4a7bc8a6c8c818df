"""A canary's dependencies as processes that can be stopped: they hold their connections, and answer nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.cluster.emulator import ROOT, Emulator
from tests.support.guard.guarded_canary import NAME, STABLE_URI
from tests.support.guard.stage import Stage
from tests.support.store.connections import aws_connection, make_bucket
from tests.support.waiting import wait_until

STORE, METRICS, CLUSTER = "object store", "metrics", "cluster"
WEIGHT = 20
WINDOW_S = 1


class StallableServices:
    """A real S3 protocol, a router's statistics and an emulated cluster; version 3 of `digits` can get its canary."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.emulator = Emulator(folder / "cluster")
        self._ports = {STORE: free_port(), METRICS: free_port()}
        self._pids: dict[str, int] = {}
        self._stages = 0

    def __enter__(self) -> StallableServices:
        """Start everything."""
        self.emulator.start()
        self._stack.callback(self.emulator.kill)
        self._pids[CLUSTER] = self.emulator.pid
        store, metrics = str(self._ports[STORE]), str(self._ports[METRICS])
        self._start(STORE, "moto.server", "-H", LOOPBACK, "-p", store)
        self._start(METRICS, "tests.support.stalled.counters_program", metrics)
        wait_until(lambda: self._answers(STORE), "the object store listens")
        wait_until(lambda: self._answers(METRICS), "the statistics listen")
        make_bucket(self._url(STORE), "slipway")
        return self

    def __exit__(self, *_: object) -> None:
        """End everything."""
        self._stack.close()

    def environment(self) -> dict[str, str]:
        """Airflow's connections."""
        kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(self.emulator.kubeconfig)}}
        metrics = {"conn_type": "http", "host": LOOPBACK, "port": self._ports[METRICS]}
        return {
            "AIRFLOW_CONN_AWS_DEFAULT": aws_connection(self._url(STORE)),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(kubernetes),
            "AIRFLOW_CONN_SLIPWAY_METRICS": json.dumps(metrics),
        }

    def stage(self) -> Stage:
        """An InferenceService of its own, version 2 live."""
        self._stages += 1
        return Stage(self.emulator, f"stalls-{self._stages}")

    def release_run(self, stage: Stage, bake_s: int, lease_s: int = 15) -> ReleaseRun:
        """The release of version 3 over version 2."""
        rollout: dict[str, Any] = {
            "inference_service": NAME,
            "namespace": stage.namespace,
            "steps": [{"weight": WEIGHT, "bake_s": bake_s}],
            "window_s": WINDOW_S,
            "max_bake_s": 3600,
            "lease_s": lease_s,
            "metrics": {"timeout_s": 1},
            # A slow version is slow from its first answer, and found while the dependency still hangs.
            "analysis": {"minimum_candidate_requests": 20, "latency_grace_s": 0},
        }
        text = json.dumps({"model": "digits", "source": {"format": "onnx"}, "rollout": rollout})
        return ReleaseRun(
            release_id=f"digits-3-{stage.namespace}",
            model="digits",
            version=3,
            bucket="slipway",
            spec=parse_release_spec(text, "digits.yaml"),
            stable=StableVersion(version=2, storage_uri=STABLE_URI),
        )

    def become(self, *, errors: float = 0.0, slow: bool = False) -> None:
        """What the candidate does to its users from now on."""
        with urlopen(f"{self._url(METRICS)}/become?errors={errors}&slow={int(slow)}", timeout=60):
            pass

    @contextmanager
    def stopped(self, part: str) -> Iterator[None]:
        """The process stands still, all its threads, and its connections stay open."""
        os.kill(self._pids[part], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pids[part], signal.SIGCONT)

    def _start(self, part: str, *module: str) -> None:
        with (self._folder / f"{part}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *module],
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}"},
                stdout=log,
                stderr=log,
            )
        self._pids[part] = process.pid
        self._stack.callback(process.wait, 20)
        self._stack.callback(process.kill)

    def _url(self, part: str) -> str:
        return f"http://{LOOPBACK}:{self._ports[part]}"

    def _answers(self, part: str) -> bool:
        try:
            with urlopen(self._url(part), timeout=5):
                return True
        except OSError:
            return False
