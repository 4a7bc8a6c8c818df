"""The plugin's application in a process of its own, over HTTP; whoever asks is signed in.

    python -m benchmarks.dashboard.server ENDPOINT BUCKET

It prints its port and serves until it is ended. How long Airflow takes to see who asks is not measured.
"""

from __future__ import annotations

import os
import socket
import sys

from fastapi import Request

from benchmarks.publishing.process import airflow
from include.sandbox.host.settings import LOOPBACK


def main() -> None:
    """Serve."""
    endpoint, bucket = sys.argv[1:]
    os.environ["AIRFLOW_VAR_SLIPWAY_BUCKET"] = bucket
    said = os.dup(1)
    os.dup2(2, 1)  # Airflow writes its log where the port is expected
    with airflow(endpoint):
        import uvicorn
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from slipway.web.access import may_read, signed_in
        from slipway.web.app import make_app

        user = SimpleAuthManagerUser(username="ada", role="admin")

        def ada(request: Request) -> SimpleAuthManagerUser:
            """Return who asks."""
            request.state.slipway_person = user.get_name()
            return user

        app = make_app()
        app.dependency_overrides |= {signed_in: ada, may_read: ada}
        listening = socket.create_server((LOOPBACK, 0))
        os.write(said, b"%d\n" % listening.getsockname()[1])
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
