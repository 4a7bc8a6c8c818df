"""One real node: containerd and a kubelet, and the scheduler that finds it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import yaml

from tests.support.conformance.control_plane import ADMIN, ControlPlane
from tests.support.conformance.processes import Processes
from tests.support.containers.node.enclosure import BRIDGE, CGROUP, GATEWAY, SERVICES, SUBNET, Enclosure
from tests.support.containers.node.runtime_programs import RuntimePrograms

NODE = "node-1"
PAUSE_IMAGE = "localhost/slipway-stand-in/pause:node"
_KUBELET_PORT = 10250
_IMPORT_LIMIT_S = 600


@dataclass(frozen=True)
class Worker:
    """What a node's programs are given.

    :param folder: gets all that they keep: images, volumes, logs.
    :param machine: folders of this machine that every container sees at their own paths, read-only.
    """

    enclosure: Enclosure
    processes: Processes
    folder: Path
    programs: RuntimePrograms
    machine: tuple[Path, ...] = ()

    @property
    def _socket(self) -> Path:
        return self.folder / "containerd.sock"

    def start_runtime(self) -> None:
        """Start containerd."""
        configuration, every_container = self.folder / "containerd.toml", self.folder / "every-container.json"
        if self.machine:
            specified = self.enclosure.call(str(self.programs.ctr), "oci", "spec")
            every_container.write_text(_with_mounts(specified, self.machine), encoding="utf-8")
        configuration.write_text(self._runtime_configuration(every_container), encoding="utf-8")
        plugins = self.folder / "cni"
        plugins.mkdir()
        (plugins / "10-bridge.conflist").write_text(json.dumps(_network()), encoding="utf-8")
        self.processes.start(
            "containerd",
            *self.enclosure.command(self.programs.containerd, "--config", configuration),
            ready=self._runtime_answers,
        )

    def _runtime_answers(self) -> bool:
        return (
            subprocess.run(self._client("version"), capture_output=True, timeout=20, check=False).returncode
            == 0
        )

    def _client(self, *words: str) -> list[str | Path]:
        client = (self.programs.ctr, "--address", self._socket, "--namespace", "k8s.io")
        return self.enclosure.command(*client, *words)

    def ctr(self, *words: str) -> str:
        """Return what containerd's own client says."""
        client = (str(self.programs.ctr), "--address", str(self._socket), "--namespace", "k8s.io")
        return self.enclosure.call(*client, *words)

    def import_images(self, archive: IO[bytes], what: str) -> None:
        """Give the node the images of an archive, as `docker save` writes one.

        :param what: names them where it fails.
        """
        done = subprocess.run(
            self._client("images", "import", "-"),
            stdin=archive,
            capture_output=True,
            text=True,
            timeout=_IMPORT_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{what}: {done.stderr[-1000:]}"

    def start_kubelet(self, program: Path, plane: ControlPlane) -> None:
        """Start the kubelet, and wait until the API says that its node is ready."""
        configuration = self.folder / "kubelet.yaml"
        configuration.write_text(yaml.safe_dump(self._kubelet_configuration(plane)), encoding="utf-8")
        api = plane.api()

        def is_ready() -> bool:
            node = api.get(f"/api/v1/nodes/{NODE}")
            if node is None or node["spec"].get("taints"):
                return False
            conditions = node.get("status", {}).get("conditions", [])
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

        self.processes.start(
            "kubelet",
            *self.enclosure.command(
                program,
                f"--config={configuration}",
                f"--kubeconfig={plane.kubeconfig(ADMIN)}",
                f"--root-dir={self.folder / 'kubelet'}",
                f"--cert-dir={self.folder / 'kubelet-certificates'}",
                f"--hostname-override={NODE}",
                f"--node-ip={GATEWAY}",
                "--v=2",
            ),
            ready=is_ready,
        )

    def _runtime_configuration(self, every_container: Path) -> str:
        based_on = f'base_runtime_spec = "{every_container}"' if self.machine else ""
        return f"""\
version = 2
root = "{self.folder / "containerd"}"
state = "{self.folder / "containerd-state"}"
oom_score = 0
# These make folders of the machine, and nothing here needs them.
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "{self._socket}"
[ttrpc]
  address = "{self._socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.programs.plugins}"
    conf_dir = "{self.folder / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    {based_on}
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "{self.programs.runc}"
"""

    def _kubelet_configuration(self, plane: ControlPlane) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "address": GATEWAY,
            "port": _KUBELET_PORT,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(plane.certificates.authority)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUP}",
            # From 1.35 on a kubelet refuses version 1 of control groups otherwise.
            "failCgroupV1": False,
            "failSwapOn": False,
            # A lower one needs a right that not every root has.
            "oomScoreAdj": 0,
            # Pods talk to the bridge's address only: no rule of the packet filter is needed.
            "makeIPTablesUtilChains": False,
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "podLogsDir": str(self.folder / "pod-logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            # The machine's disk is not this node's: how full it is, decides nothing here.
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
            # What a volume holds is looked at each minute by default.
            "volumeStatsAggPeriod": "5s",
        }


def _with_mounts(specification: str, folders: Sequence[Path]) -> str:
    """Return the specification of a container with some more folders to see."""
    found = json.loads(specification)
    for folder in folders:
        mount = {"type": "bind", "source": str(folder), "destination": str(folder)}
        found["mounts"].append({**mount, "options": ["rbind", "ro"]})
    return json.dumps(found)


def _network() -> dict[str, object]:
    """Return how pods get an address at the bridge: one network, and no way out of it but to Services."""
    return {
        "cniVersion": "1.0.0",
        "name": "slipway-node",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": SUBNET, "gateway": GATEWAY}]],
                    "routes": [{"dst": SERVICES, "gw": GATEWAY}],
                },
            }
        ],
    }
