"""A real Prometheus that asks the queue proxies of the cluster's revisions, as the judge needs it.

Debian's has no discovery of pods by the API: a thread writes down for it what a PodMonitor of the Prometheus operator
would have it find, with that operator's labels `namespace` and `pod`.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from pathlib import Path

import requests

from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.conformance.api import Api, Object
from tests.support.conformance.real_cluster import Cluster
from tests.support.containers.node.node_cluster import NodeCluster

log = logging.getLogger(__name__)

PROGRAM = "prometheus"
SCRAPE_INTERVAL_S = 1
_PORT_NAME = "http-usermetric"
_LOOK_EVERY_S = 0.5


class QueueProxies(threading.Thread):
    """Keeps a file of Prometheus' targets: the queue proxy of each pod that has an address."""

    def __init__(self, api: Api, path: Path) -> None:
        super().__init__(name="queue-proxies", daemon=True)
        self._api, self._path = api, path
        self._stop_wanted = threading.Event()

    def run(self) -> None:
        """Look at all pods, again and again."""
        written: list[Object] | None = None
        while True:
            try:
                found = [one for pod in self._api.items("/api/v1/pods") if (one := target(pod))]
            except Exception:  # the thread must outlive whatever it is, or the judge would see no new pod
                log.exception("the pods could not be looked at")
            else:
                if found != written:
                    replace_file(self._path, json.dumps(found))
                    written = found
            if self._stop_wanted.wait(_LOOK_EVERY_S):
                return

    def stop(self) -> None:
        """End the thread."""
        self._stop_wanted.set()
        self.join()


def target(pod: Object) -> Object | None:
    """Return how Prometheus asks a pod's queue proxy; None: it has none, or no address yet."""
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports", []))
    number = next((port["containerPort"] for port in ports if port.get("name") == _PORT_NAME), None)
    address = pod["status"].get("podIP")
    if number is None or not address:
        return None
    labels = {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]}
    return {"targets": [f"{address}:{number}"], "labels": labels}


def start_prometheus(node: NodeCluster, cluster: Cluster) -> int:
    """Start it on loopback, with what tells it of pods; return its port."""
    folder, port = cluster.plane.folder / PROGRAM, free_port()
    folder.mkdir()
    targets, configuration = folder / "targets.json", folder / "prometheus.yml"
    configuration.write_text(json.dumps(_configuration(targets)), encoding="utf-8")
    proxies = QueueProxies(cluster.plane.api(), targets)
    proxies.start()
    node.clean_up.callback(proxies.stop)
    program = shutil.which(PROGRAM)
    assert program is not None
    cluster.processes.start(
        PROGRAM,
        program,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
        ready=lambda: requests.get(f"http://{LOOPBACK}:{port}/-/ready", timeout=2).ok,
    )
    return port


def _configuration(targets: Path) -> dict[str, object]:
    interval = f"{SCRAPE_INTERVAL_S}s"
    discovery = {"files": [str(targets)], "refresh_interval": interval}
    scrape = {"job_name": "knative-queue-proxies", "file_sd_configs": [discovery]}
    return {"global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": [scrape]}
