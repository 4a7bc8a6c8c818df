"""What `slipway verify` prints, as a process of its own reads the store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.store.connections import CREDENTIALS, make_bucket
from tests.support.store.moto_server import moto_server


def test_nothing_but_the_answer_is_printed(tmp_path: Path) -> None:
    """What the libraries of the hooks log about credentials is not for who asks."""
    program = "import sys; from slipway.cli.main import run; sys.exit(run(sys.argv[1:]))"
    with moto_server() as endpoint:
        bucket = make_bucket(endpoint, "slipway-verify-output")
        store = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": CREDENTIALS["login"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["password"],
        }
        done = subprocess.run(
            [sys.executable, "-c", program, "verify", "digits", "7", "--bucket", bucket],
            env={**os.environ, **store, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: version 7 of 'digits' is not published")
