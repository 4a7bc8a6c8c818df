"""Images for a node that a container engine of this machine has built."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.containers.engine import Engine
from tests.support.containers.node.worker import PAUSE_IMAGE, Worker

_CATATONIT = Path("/usr/bin/catatonit")
_PAUSE = 'FROM scratch\nCOPY catatonit /pause\nENTRYPOINT ["/pause", "-P"]\n'


@dataclass(frozen=True)
class EngineImages:
    """What the node is given: there is no registry that it could pull from.

    :param named: the name by which pods ask for an image, by the name by which it was built.
    """

    builder: Engine
    named: Mapping[str, str] = field(default_factory=dict)

    def give(self, worker: Worker) -> None:
        """Give the node the images, and the one that holds a pod's namespaces: a stand-in, made of catatonit."""
        self._build_pause(worker.folder / "pause")
        self._import(worker, PAUSE_IMAGE)
        for built, asked in self.named.items():
            self._import(worker, built)
            if asked != built:
                worker.ctr("images", "tag", built, asked)

    def _build_pause(self, context: Path) -> None:
        if self.builder.has(PAUSE_IMAGE):
            return
        context.mkdir()
        (context / "catatonit").write_bytes(_CATATONIT.read_bytes())
        (context / "catatonit").chmod(0o755)
        (context / "Containerfile").write_text(_PAUSE, encoding="utf-8")
        self.builder.build(context / "Containerfile", context, PAUSE_IMAGE)

    def _import(self, worker: Worker, image: str) -> None:
        saved = self.builder.command("save", "--format", "docker-archive", image)
        with subprocess.Popen(
            saved, env=self.builder.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as saving:
            assert saving.stdout is not None
            worker.import_images(saving.stdout, image)
        assert saving.returncode == 0, image
