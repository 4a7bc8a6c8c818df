"""The plugin's application in a process of its own, over HTTP; whoever asks is signed in.

    python -m benchmarks.dashboard.server ENDPOINT BUCKET

It prints its port and serves until it is ended. How long Airflow takes to see who asks is not measured.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

from fastapi import Request

from benchmarks.publishing.process import airflow
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template


def main() -> None:
    """Serve."""
    endpoint, bucket = sys.argv[1:]
    os.environ["AIRFLOW_VAR_SLIPWAY_BUCKET"] = bucket
    said = os.dup(1)
    os.dup2(2, 1)  # Airflow writes its log where the port is expected
    with airflow(endpoint):
        # A model's page asks Airflow what the person may do.
        template = database_template(PROJECT_ROOT / ".sandbox")
        shutil.copyfile(template, Path(os.environ["AIRFLOW_HOME"]) / "airflow.db")
        import uvicorn
        from airflow.api_fastapi.app import create_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        from slipway.web.access import may_read, signed_in
        from slipway.web.app import make_app

        create_auth_manager().init()
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
