"""Access to EKS without a kubeconfig file: moto's EKS, and an emulated API server that reads both clients' tokens."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook, KubernetesHook

from slipway.hooks.inference_service import KServeHook
from slipway_eks_token.connection import connection_of
from slipway_eks_token.token import make_token
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.http_server import QuietHandler, http_server
from tests.support.store.moto_server import moto_server

REGION, CLUSTER = "eu-central-1", "models"
IDENTITY = {"AWS_ACCESS_KEY_ID": "slipway-test", "AWS_SECRET_ACCESS_KEY": "slipway-secret"}


class ApiServer(QuietHandler):
    """An emulated API server: it has no object, and keeps the tokens with which it is asked."""

    tokens: list[str]

    def respond(self) -> None:
        self.tokens.append(self.headers.get("Authorization", ""))
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "NotFound",
            "code": 404,
        }
        self.answer(404, json.dumps(status).encode())


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the API server was asked with; `kubernetes_default` leads to it as to an EKS cluster."""
    seen: list[str] = []
    handler = type("Handler", (ApiServer,), {"tokens": seen})
    monkeypatch.setenv("PYTHONPATH", str(PROJECT_ROOT / "include"))
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    with http_server(handler) as port:
        address = f"http://{LOOPBACK}:{port}"
        connection = connection_of(
            CLUSTER, REGION, endpoint=address, authority="", namespace="models", python=sys.executable
        )
        del connection["extra"]["kube_config"]["clusters"][0]["cluster"]["certificate-authority-data"]
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        yield seen


def signed_request(token: str) -> tuple[str, dict[str, list[str]]]:
    """Return host and parameters of the request to STS that a token holds."""
    text = token.removeprefix("Bearer ").removeprefix("k8s-aws-v1.")
    address = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    parts = urlsplit(address)
    return parts.netloc, parse_qs(parts.query)


def require_eks_token(token: str) -> None:
    """Assert what EKS demands of a token: the regional STS, the caller's identity, the cluster among what is signed."""
    assert token.startswith("Bearer k8s-aws-v1.")
    host, asked = signed_request(token)
    assert host == f"sts.{REGION}.amazonaws.com"
    assert asked["Action"] == ["GetCallerIdentity"]
    assert asked["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert asked["X-Amz-Expires"] == ["60"]
    assert asked["X-Amz-Credential"][0].startswith("slipway-test/")
    assert asked["X-Amz-Credential"][0].endswith(f"/{REGION}/sts/aws4_request")
    assert "slipway-secret" not in token


def test_the_hooks_of_a_release_ask_with_a_token(tokens: list[str]) -> None:
    """The hook on the InferenceService, by the connection alone: the emulated API server gets a token of EKS's form."""
    assert KServeHook("digits", "models").get() is None
    require_eks_token(tokens[-1])


async def test_the_triggerers_client_asks_with_a_token(tokens: list[str]) -> None:
    """The asynchronous client, by which pods are waited for in the triggerer."""
    hook = AsyncKubernetesHook(conn_id="kubernetes_default")
    for _ in range(2):
        with pytest.raises(Exception, match="404"):
            await hook.get_pod("digits", "models")
    assert len(tokens) >= 2
    for token in tokens:
        require_eks_token(token)


def test_a_token_that_runs_out_is_signed_anew(tokens: list[str]) -> None:
    """The client of a long task asks the program again before the token's time is over, and not for each request."""
    client = KubernetesHook(conn_id="kubernetes_default").core_v1_client
    configuration = client.api_client.configuration
    for _ in range(2):
        with pytest.raises(Exception, match="404"):
            client.read_namespaced_pod("digits", "models")
    assert tokens[0] == tokens[1]
    loader = configuration.refresh_api_key_hook.__closure__[0].cell_contents
    loader.expiry = "2026-01-01T00:00:00Z"
    os.environ["AWS_ACCESS_KEY_ID"] = "slipway-other"
    with pytest.raises(Exception, match="404"):
        client.read_namespaced_pod("digits", "models")
    assert signed_request(tokens[2])[1]["X-Amz-Credential"][0].startswith("slipway-other/")


def test_without_an_identity_no_request_is_sent(
    tokens: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The program ends with a reason, and the API server is never asked without a token as if that were enough."""
    for name in IDENTITY:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    command = [sys.executable, "-m", "slipway_eks_token", "--cluster-name", CLUSTER, "--region", REGION]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "no AWS credentials: give the pod a role" in done.stderr
    assert done.stdout == ""


def test_the_connection_is_made_of_what_eks_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Address and authority come from moto's EKS; the connection holds no token and no key."""
    with moto_server() as endpoint:
        for name, value in IDENTITY.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        eks = boto3.client("eks", region_name=REGION)
        role = "arn:aws:iam::123456789012:role/eks"
        subnets = {"subnetIds": ["subnet-1", "subnet-2"]}
        made = eks.create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig=subnets)["cluster"]
        command = [sys.executable, "-m", "slipway_eks_token", "--cluster-name", CLUSTER, "--region", REGION]
        done = subprocess.run(
            [*command, "--connection"], capture_output=True, text=True, timeout=120, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        cluster = found["extra"]["kube_config"]["clusters"][0]["cluster"]
        assert cluster == {
            "server": made["endpoint"],
            "certificate-authority-data": made["certificateAuthority"]["data"],
        }
        assert found["extra"]["namespace"] == "default"
        unknown = [*command[:4], "nobodys", *command[5:], "--connection"]
        failed = subprocess.run(unknown, capture_output=True, text=True, timeout=120, check=False)
        assert failed.returncode == 1
        assert "nobodys" in failed.stderr


def asked_of_program() -> dict[str, list[str]]:
    """Return the parameters of the request in the token that the program prints."""
    command = [sys.executable, "-m", "slipway_eks_token", "--cluster-name", CLUSTER, "--region", REGION]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return signed_request(json.loads(done.stdout)["status"]["token"])[1]


def test_a_service_accounts_role_signs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """IRSA: the web identity in the pod's file is exchanged for a role at STS, here moto's, and that role signs."""
    (tmp_path / "token").write_text("a.web.identity")
    for name in IDENTITY:
        monkeypatch.delenv(name, raising=False)
    with moto_server() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/airflow")
        monkeypatch.setenv("PYTHONPATH", str(PROJECT_ROOT / "include"))
        asked = asked_of_program()
    assert asked["X-Amz-Credential"][0].startswith("ASIA")
    assert asked["X-Amz-Security-Token"]


def test_pod_identity_signs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """EKS Pod Identity: the agent on the node, emulated here, gives keys to whoever shows the pod's token."""
    (tmp_path / "token").write_text("pods-own-token")

    class Agent(QuietHandler):
        def respond(self) -> None:
            assert self.headers["Authorization"] == "pods-own-token"
            expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            keys = {
                "AccessKeyId": "of-the-agent",
                "SecretAccessKey": "s",
                "Token": "t",
                "Expiration": expires,
            }
            self.answer(200, json.dumps(keys).encode())

    for name in IDENTITY:
        monkeypatch.delenv(name, raising=False)
    with http_server(Agent) as port:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{LOOPBACK}:{port}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("PYTHONPATH", str(PROJECT_ROOT / "include"))
        asked = asked_of_program()
    assert asked["X-Amz-Credential"][0].startswith("of-the-agent/")


@pytest.mark.parametrize(
    ("region", "host"),
    [("us-east-1", "sts.us-east-1.amazonaws.com"), ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn")],
)
def test_the_request_is_for_the_regions_own_sts(
    region: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the global one, and in China that of its partition; the token's text is not in its repr."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    token = make_token(CLUSTER, region, datetime(2026, 11, 20, tzinfo=UTC))
    assert signed_request(token.text)[0] == host
    assert token.text not in repr(token)
    status = token.to_exec_credential()["status"]
    assert status == {"token": token.text, "expirationTimestamp": "2026-11-20T00:14:00Z"}
