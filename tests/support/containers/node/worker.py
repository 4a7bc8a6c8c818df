"""One real node: containerd and a kubelet, and the scheduler that finds it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.conformance.control_plane import ADMIN, ControlPlane
from tests.support.conformance.processes import Processes
from tests.support.containers.engine import Engine
from tests.support.containers.node.enclosure import BRIDGE, CGROUP, GATEWAY, SUBNET, Enclosure

NODE = "node-1"
CNI_PLUGINS = Path("/usr/lib/cni")
PAUSE_IMAGE = "localhost/slipway-stand-in/pause:node"
_CATATONIT = Path("/usr/bin/catatonit")
_PAUSE = 'FROM scratch\nCOPY catatonit /pause\nENTRYPOINT ["/pause", "-P"]\n'
_KUBELET_PORT = 10250
_IMPORT_LIMIT_S = 600


@dataclass(frozen=True)
class Worker:
    """What a node's programs are given.

    :param folder: gets all that they keep: images, volumes, logs.
    """

    enclosure: Enclosure
    processes: Processes
    folder: Path

    @property
    def _socket(self) -> Path:
        return self.folder / "containerd.sock"

    def start_runtime(self) -> None:
        """Start containerd."""
        configuration = self.folder / "containerd.toml"
        configuration.write_text(self._runtime_configuration(), encoding="utf-8")
        plugins = self.folder / "cni"
        plugins.mkdir()
        (plugins / "10-bridge.conflist").write_text(json.dumps(_network()), encoding="utf-8")
        self.processes.start(
            "containerd",
            *self.enclosure.command("containerd", "--config", configuration),
            ready=self._runtime_answers,
        )

    def _runtime_answers(self) -> bool:
        asked = self.enclosure.command("ctr", "--address", self._socket, "version")
        return subprocess.run(asked, capture_output=True, timeout=20, check=False).returncode == 0

    def ctr(self, *words: str) -> str:
        """Return what containerd's own client says."""
        return self.enclosure.call("ctr", "--address", str(self._socket), "--namespace", "k8s.io", *words)

    def give_images(self, builder: Engine, images: Mapping[str, str]) -> None:
        """Give the node images that were built here: there is no registry that it could pull them from.

        :param images: the name by which pods ask for it, by the name by which it was built.
        """
        for built, asked in images.items():
            self._import(builder, built)
            if asked != built:
                self.ctr("images", "tag", built, asked)

    def give_pause_image(self, builder: Engine) -> None:
        """Give the node the image that holds a pod's namespaces: a stand-in, made of catatonit."""
        if not builder.has(PAUSE_IMAGE):
            context = self.folder / "pause"
            context.mkdir()
            (context / "catatonit").write_bytes(_CATATONIT.read_bytes())
            (context / "catatonit").chmod(0o755)
            (context / "Containerfile").write_text(_PAUSE, encoding="utf-8")
            builder.build(context / "Containerfile", context, PAUSE_IMAGE)
        self._import(builder, PAUSE_IMAGE)

    def _import(self, builder: Engine, image: str) -> None:
        saved = builder.command("save", "--format", "docker-archive", image)
        words = ("ctr", "--address", self._socket, "--namespace", "k8s.io", "images", "import", "-")
        with subprocess.Popen(
            saved, env=builder.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as saving:
            done = subprocess.run(
                self.enclosure.command(*words),
                stdin=saving.stdout,
                capture_output=True,
                text=True,
                timeout=_IMPORT_LIMIT_S,
                check=False,
            )
        assert (done.returncode, saving.returncode) == (0, 0), f"{image}: {done.stderr[-1000:]}"

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

    def _runtime_configuration(self) -> str:
        return f"""\
version = 2
root = "{self.folder / "containerd"}"
state = "{self.folder / "containerd-state"}"
oom_score = 0
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
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{self.folder / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
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


def _network() -> dict[str, object]:
    """Return how pods get an address at the bridge: one network, and no way out of it."""
    return {
        "cniVersion": "1.0.0",
        "name": "slipway-node",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "ipMasq": False,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": SUBNET, "gateway": GATEWAY}]]},
            }
        ],
    }
