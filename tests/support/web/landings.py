"""Versions that land in the bucket of a test's site."""

from __future__ import annotations

import json
from pathlib import Path

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.spec.release_file import load_model_spec
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.store.connections import own_connection
from tests.support.web.airflow_site import AirflowSite


def land(site: AirflowSite, model: str, version: int, *, ready: bytes | None = None) -> None:
    """Upload what the model's release file asks for, and `ready.json` last.

    :param ready: what `ready.json` says; None: what training writes.
    """
    releases = Path(site.environment.get("SLIPWAY_RELEASES_DIR") or PROJECT_ROOT / "include" / "releases")
    with own_connection(site.store_endpoint) as conn_id:
        store, place = ModelStoreHook(site.bucket, conn_id), f"incoming/{model}/{version}"
        for name in load_model_spec(releases, model).required_files():
            store.write(f"{place}/{name}", b"made up")
        written = json.dumps({"model": model, "version": version}).encode()
        store.write(f"{place}/ready.json", written if ready is None else ready)
