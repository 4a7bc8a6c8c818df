"""Asks Airflow, in a process of its own, what it knows of the connection type `triton`; writes the answers as JSON.

    python provider_program.py BODIES

BODIES is JSON: for each connection to test the body of `POST /api/v2/connections/test`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from airflow.api_fastapi.app import create_app
from airflow.providers_manager import ProvidersManager
from fastapi.testclient import TestClient


def answers(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the providers' manager and the API server say."""
    manager = ProvidersManager()
    hook = manager.hooks["triton"]
    with TestClient(create_app(apps="core"), base_url="http://localhost") as client:
        token = client.get("/auth/token").json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        meta = client.get("/ui/connections/hook_meta").json()
        tests = [client.post("/api/v2/connections/test", json=body) for body in bodies]
    return {
        "provider": manager.providers["airflow-provider-triton"].version,
        "hook": None if hook is None else hook.hook_class_name,
        "links": sorted(manager.extra_links_class_names),
        "sensitive": [
            name
            for name, widget in manager.connection_form_widgets.items()
            if name.startswith("extra__triton__") and widget.is_sensitive
        ],
        "form": [one for one in meta if one["connection_type"] == "triton"],
        "tests": [{"status": one.status_code, "answer": one.json()} for one in tests],
    }


if __name__ == "__main__":
    found = answers(json.loads(sys.argv[1]))
    print("ANSWERS " + json.dumps(found))
