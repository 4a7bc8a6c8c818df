"""What revalidation takes for live, in both of KServe's dialects: the emulated cluster, real Tritons, a real Envoy."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.hooks.ingress import IngressHook
from slipway.hooks.live_server import LiveServerHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.revalidation.live_look import LiveLook
from slipway_core.errors import ServerUnavailableError
from slipway_core.rollout.next_action import FirstDeploy, Promote, StartCanary
from slipway_core.spec.release_file import parse_release_spec
from tests.support.serving.edited_server import BY_HAND, edit_configuration
from tests.support.serving.published import BETTER, GOOD
from tests.support.serving.serving_stack import NAME, ServingStack, manifest

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

SPEC = parse_release_spec("model: table\nsource: {format: onnx}\nrollout: {namespace: models}\n", "a file")


@pytest.mark.parametrize("mode", ["Knative", "Standard"])
async def test_what_is_live_is_told_and_can_be_asked(
    mode: str, serving_stack: ServingStack, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, during and after a canary; the address leads to the servers that users get. The bucket is another's."""
    ingress = {"conn_type": "http", "host": "127.0.0.1", "port": serving_stack.envoy.ingress_port}
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_INGRESS", json.dumps(ingress))
    context: Any = {"run_id": "revalidation-1", "ti": SimpleNamespace()}
    look = LiveLook(store, SPEC, context, kubernetes_conn_id="kubernetes_default")
    assert (await asyncio.to_thread(look.live)).standing == "nothing_live"
    service = manifest(GOOD)
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": mode}
    marks = set()
    for uri in (GOOD, BETTER):
        if uri == GOOD:
            await serving_stack.reach(FirstDeploy(service))
        else:
            await serving_stack.reach(StartCanary(uri, 50))
            assert (await asyncio.to_thread(look.live)).standing == "in_flight"
            await serving_stack.reach(Promote(uri))
        live = await asyncio.to_thread(look.live)
        assert (live.standing, live.is_foreign, uri in live.why) == ("checked", True, True)
        server = LiveServerHook(IngressHook().endpoint(live.url), 10)
        assert (await asyncio.to_thread(server.config, NAME))["name"] == NAME
        assert (await asyncio.to_thread(server.metadata, NAME))["versions"] == ["1"]
        marks.add(live.mark)
    assert len(marks) == 2


async def test_a_server_that_was_edited_in_its_pod_tells_it(
    serving_stack: ServingStack, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the pod is served after a restart, while the InferenceService is the same."""
    ingress = {"conn_type": "http", "host": "127.0.0.1", "port": serving_stack.envoy.ingress_port}
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_INGRESS", json.dumps(ingress))
    service = manifest(GOOD)
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "Knative"}
    await serving_stack.reach(FirstDeploy(service))
    context: Any = {"run_id": "revalidation-1", "ti": SimpleNamespace()}
    look = LiveLook(store, SPEC, context, kubernetes_conn_id="kubernetes_default")
    live = await asyncio.to_thread(look.live)
    edit_configuration(serving_stack.emulator.folder, NAME, NAME)
    server = LiveServerHook(IngressHook().endpoint(live.url), 10)
    await serving_stack.until(lambda: _serves_by_hand(server), "the server is back as somebody has made it")
    await serving_stack.until(lambda: look.live().mark == live.mark, "the service is live as before")


def _serves_by_hand(server: LiveServerHook) -> bool:
    try:
        return BY_HAND in server.config(NAME).get("parameters", {})
    except ServerUnavailableError:
        return False
