"""Images: their names, what pods and registries say of them, and the command that pulls one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.doctor.registry_manifest import manifest_status
from slipway_core.doctor.images import (
    ImageName,
    images_of,
    parse_image,
    pods_of_image,
    pull_command,
    seen_finding,
)
from slipway_core.doctor.line import Status
from slipway_core.spec.release_file import release_spec_of
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.http_server import QuietHandler, http_server


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("slipway/onnx:0.1.0", ("", "slipway/onnx", "0.1.0")),
        ("onnx", ("", "onnx", "latest")),
        ("ghcr.io/team/onnx", ("ghcr.io", "team/onnx", "latest")),
        ("localhost:5000/onnx:1", ("localhost:5000", "onnx", "1")),
        ("localhost/onnx:1", ("localhost", "onnx", "1")),
        ("ghcr.io/team/onnx:1@sha256:ab", ("ghcr.io", "team/onnx", "sha256:ab")),
    ],
    ids=["plain", "bare", "registry", "port", "localhost", "digest"],
)
def test_a_name_is_taken_apart(name: str, parts: tuple[str, str, str]) -> None:
    """As container runtimes do."""
    assert parse_image(name) == ImageName(*parts)


def test_the_images_of_release_files_are_each_named_once() -> None:
    """With the models that need them."""
    specs = [release_spec_of({"model": name, "source": {"format": "onnx"}}, "a test") for name in ("a", "b")]
    found = images_of(specs)
    assert found["slipway/onnx:0.1.0"] == ["a", "b"]
    assert {"slipway/smoke-test:0.1.0", "slipway/perf-analyzer:0.1.0"} <= found.keys()


def pod(name: str, image: str, **status: Any) -> dict[str, Any]:
    """Return a pod of one container."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "base", "image": image}]},
        "status": {"containerStatuses": [{"name": "base", **status}]},
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"imageID": "sha256:ab"}, Status.OK),
        ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, Status.FAILED),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, None),
    ],
    ids=["pulled", "refused", "creating"],
)
def test_a_pod_says_whether_its_image_was_pulled(status: dict[str, Any], expected: Status | None) -> None:
    """One of another image says nothing."""
    pods = [pod("one", "a:1", **status), pod("other", "b:1", imageID="sha256:cd"), {"status": "hostile"}]
    found = seen_finding("a:1", ["digits"], *pods_of_image(pods, "a:1"))
    assert (None if found is None else found.status) is expected


def test_the_command_names_the_pull_secrets() -> None:
    """As a pod of a release does."""
    command = pull_command("ghcr.io/onnx:1", "pods", ["regcred"])
    overrides = command.partition("--overrides='")[2].partition("'")[0]
    assert json.loads(overrides) == {"spec": {"imagePullSecrets": [{"name": "regcred"}]}}


class Registry(QuietHandler):
    """Has `known:1` for anybody, `public:1` for who asks for a token, and `private:1` for nobody."""

    def respond(self) -> None:
        """Answer one request."""
        if self.path.startswith("/token"):
            self.answer(200, json.dumps({"token": "public"}).encode())
            return
        name = self.path.split("/")[2]
        if name == "known" or (name == "public" and self.headers.get("Authorization") == "Bearer public"):
            self.answer(200, b"")
        elif name in ("public", "private"):
            host = self.headers["Host"]
            realm = f'Bearer realm="http://{host}/token",service="r",scope="repository:{name}:pull"'
            self.answer(401, b"", headers={"WWW-Authenticate": realm})
        else:
            self.answer(404, b"")


@pytest.fixture
def registry() -> Iterator[str]:
    """The registry's host and port."""
    with http_server(Registry) as port:
        yield f"{LOOPBACK}:{port}"


@pytest.mark.parametrize(
    ("name", "status"), [("known", 200), ("public", 200), ("private", 401), ("absent", 404)]
)
def test_a_registry_is_asked_as_anybody_may(registry: str, name: str, status: int) -> None:
    """With the token that it gives anybody, if it gives one."""
    assert manifest_status(ImageName(registry, name, "1")) == status


def test_a_registry_that_does_not_answer_is_no_status() -> None:
    """It is said in words."""
    found = manifest_status(ImageName(f"{LOOPBACK}:{free_port()}", "known", "1"))
    assert isinstance(found, str)
    assert found.startswith("no answer")
