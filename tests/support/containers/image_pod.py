"""A pod's program in its image, run as the operators run it, against an S3 on this machine's loopback."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.containers.engine import SCRATCH, Engine
from tests.support.pods.support import ObjectStore, PodRun


@dataclass(frozen=True)
class ImagePod:
    """An image that was built, and the S3 that its programs use."""

    engine: Engine
    image: str
    store: ObjectStore

    def variables(self) -> list[str]:
        """Return what leads a program to the S3."""
        given = {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.store.endpoint,
        }
        return [f"--env={name}={value}" for name, value in given.items()]

    def run(
        self, script: str, *arguments: str, prefix: str, scratch: bool = True, options: Iterable[str] = ()
    ) -> PodRun:
        """Run a program to its end with `--destination` under `prefix`, and read the result that it left there.

        :param scratch: whether a volume lies at /tmp.
        :param options: more of the engine's options.
        """
        options = [*self.variables(), *(SCRATCH if scratch else ()), *options]
        command = [script, *arguments, "--destination", self.store.url(prefix)]
        # The S3 listens on the machine's loopback only.
        done = self.engine.run(self.image, *command, options=options, network="host")
        written = "result.json" in self.store.keys(prefix)
        result = json.loads(self.store.read(f"{prefix}/result.json")) if written else None
        return PodRun(done.returncode, done.stdout, done.stderr, result)
