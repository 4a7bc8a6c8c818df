"""moto's server in a process of its own, which can be stopped in the middle of an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.waiting import wait_until


class StoreProcess:
    """moto's server as a process, which can be stopped."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        with (folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, "the object store listens")

    def _answers(self) -> bool:
        try:
            with urlopen(self.url, timeout=5):
                return True
        except OSError:
            return False

    def signal(self, number: int) -> None:
        """Stop it, or let it go on."""
        os.kill(self.process.pid, number)
