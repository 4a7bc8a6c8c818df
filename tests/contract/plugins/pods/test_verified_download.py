"""The storage initializer that verifies: a server gets what was published, for this model and version, or nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry import signing as signing_module
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey, sign
from slipway_rules.text_forms import canonical_json
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES
from slipway_sandbox.host.images import build_image
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.cluster.emulator import NAMESPACE, Emulator, pod
from tests.support.cluster.emulator import wait_until as cluster_wait
from tests.support.pods.verified_download import CREDENTIALS, POD_SCRIPTS, Initializer, own_s3, put_version
from tests.support.serving.triton_install import triton_install
from tests.support.store.publication import Publication
from tests.support.store.signing_keys import key_of

pytestmark = pytest.mark.timeout(600)

STORAGE_CONTAINER = POD_SCRIPTS.parent / "manifests" / "verify" / "cluster-storage-container.yaml"

ROOT = "models/digits/3/"
MODEL = f"{ROOT}repository/digits/3/model.onnx"
PUBLISHED = {
    "digits/config.pbtxt": b'name: "digits"',
    "digits/3/model.onnx": b"an onnx model",
    "digits/3/weights.0": b"\x00",
    "digits/3/weights.1": b"\x01",
}
Change = Callable[[ModelStoreHook], None]


@pytest.fixture(scope="session")
def image() -> Path:
    """The environment that stands for the image `slipway/verify`."""
    return build_image("verify")


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    """The key with which versions are signed."""
    return key_of(tmp_path)


@pytest.fixture
def published(
    store: ModelStoreHook, prepare_version: Callable[..., Publication], key: SigningKey
) -> ModelStoreHook:
    """A store with a signed version 3 of digits, published as releases do."""
    one = prepare_version(version=3, weight_files=2)
    ModelRegistry(store).publish(one.manifest, one.sources, one.golden, sign=partial(sign, key=key))
    return store


@pytest.fixture
def initializer(image: Path, s3_endpoint: str, tmp_path: Path, key: SigningKey) -> Initializer:
    """The program, which is given the public key as text, and an empty folder."""
    folder = tmp_path / "models"
    folder.mkdir()
    return Initializer(image, s3_endpoint, folder, {"SLIPWAY_PUBLIC_KEYS": key.public_pem.decode()})


def uri(store: ModelStoreHook, model: str = "digits", version: int = 3) -> str:
    """The storageUri of a version."""
    return store.uri(f"models/{model}/{version}/repository")


@pytest.mark.parametrize("given", ["text", "two keys", "file", "no key"])
def test_published_version_is_downloaded(
    published: ModelStoreHook, initializer: Initializer, key: SigningKey, tmp_path: Path, given: str
) -> None:
    """The folder holds the version's files and no others, readable by any user, whichever way keys are given."""
    path = tmp_path / "keys.pem"
    path.write_bytes(key.public_pem)
    both = key_of(tmp_path, name="other").public_pem + b"\n" + key.public_pem
    initializer.settings = {
        "text": initializer.settings,
        "two keys": {"SLIPWAY_PUBLIC_KEYS": both.decode()},
        "file": {"SLIPWAY_PUBLIC_KEY_FILE": str(path)},
        "no key": {},
    }[given]
    assert initializer.run(uri(published)) == (0, "")
    assert initializer.files() == PUBLISHED
    assert all(one.stat().st_mode & 0o444 == 0o444 for one in initializer.destination.rglob("*"))
    done = json.loads((initializer.destination / ".slipway-verified.json").read_text())
    assert (done["source"], done["signed"]) == (uri(published), given != "no key")
    # A container that is started again finds what it has left.
    assert initializer.run(uri(published)) == (0, "")
    assert initializer.files() == PUBLISHED


def rewritten(store: ModelStoreHook, **changes: Any) -> None:
    """The manifest says something else."""
    document = json.loads(store.read(f"{ROOT}manifest.json") or b"")
    store.write(f"{ROOT}manifest.json", canonical_json(document | changes))


def with_other_bytes(store: ModelStoreHook) -> None:
    """A file and its entry in the manifest were changed alike."""
    store.write(MODEL, b"an onnx modeL")
    document = json.loads(store.read(f"{ROOT}manifest.json") or b"")
    entry = {"size_bytes": 13, "sha256": "0fc7d0ebb7e4e2a3e3cbdd8b2bd6d1d3e7c1c9b7c3f8ad2fd8dbb7e0d64f7c6a"}
    rewritten(store, files={**document["files"], "digits/3/model.onnx": entry})


CHANGES: dict[str, tuple[Change, int, str]] = {
    "changed byte": (lambda store: store.write(MODEL, b"an onnx modeL"), 3, "is not what was published"),
    "longer file": (lambda store: store.write(MODEL, b"an onnx model "), 3, "13 bytes. Found: 14 bytes"),
    "extra file": (lambda store: store.write(f"{ROOT}repository/x/1/model.py", b"x"), 3, "x/1/model.py"),
    "missing file": (lambda store: store.delete(MODEL), 3, "model.onnx is not as its manifest has it"),
    "no manifest": (lambda store: store.delete(f"{ROOT}manifest.json"), 3, "There is no s3://"),
    "broken manifest": (lambda store: store.write(f"{ROOT}manifest.json", b"{"), 3, "not this version's"),
    "deep manifest": (lambda store: store.write(f"{ROOT}manifest.json", b"[" * 10**6), 3, "not this version's"),
    "large manifest": (
        lambda store: store.write(f"{ROOT}manifest.json", b" " * (MANIFEST_LIMIT_BYTES + 1)),
        3,
        "larger than it may be",
    ),
    "file and manifest changed": (with_other_bytes, 4, "another manifest was signed"),
    "manifest changed": (lambda store: rewritten(store, tools={"a": "b"}), 4, "another manifest was signed"),
    "unsigned": (lambda store: rewritten(store, attachments={}), 4, "is not signed"),
    "signature lost": (lambda store: store.delete(f"{ROOT}model.sig"), 3, "There is no s3://"),
    "signature changed": (lambda store: store.write(f"{ROOT}model.sig", b"{}"), 3, "not what was published"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "code", "words"), CHANGES.values(), ids=CHANGES)
def test_nothing_else_is_downloaded(
    published: ModelStoreHook, initializer: Initializer, change: Change, code: int, words: str
) -> None:
    """What is not what was published and signed ends with one line that says so, and the folder is empty as before."""
    change(published)
    ended, told = initializer.run(uri(published))
    assert (ended, told.count("\n")) == (code, 1)
    assert words in told
    assert list(initializer.destination.iterdir()) == []


@pytest.mark.parametrize(("model", "version"), [("digits", 9), ("fraud", 4)])
def test_copied_version_is_not_downloaded(
    published: ModelStoreHook, initializer: Initializer, model: str, version: int
) -> None:
    """A signed version that was copied to another model's or version's prefix is not that one."""
    for entry in published.entries(ROOT):
        published.copy(entry.key, entry.key.replace(ROOT, f"models/{model}/{version}/", 1))
    ended, told = initializer.run(uri(published, model, version))
    assert ended == 3
    assert f"the manifest of {model} version {version}. Found: that of 'digits' version 3" in told
    assert list(initializer.destination.iterdir()) == []


def test_signature_of_another_key_or_without_identity_is_refused(
    published: ModelStoreHook,
    prepare_version: Callable[..., Publication],
    initializer: Initializer,
    key: SigningKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stranger's signature is refused, and so, in words of its own, is one from before manifests were signed."""
    with monkeypatch.context() as before:
        before.setattr(signing_module, "MANIFEST_PROPERTY", "something_else")
        one = prepare_version(version=4)
        ModelRegistry(published).publish(one.manifest, one.sources, one.golden, sign=partial(sign, key=key))
    ended, told = initializer.run(uri(published, version=4))
    assert (ended, "covers the version's files alone" in told) == (4, True)
    initializer.settings["SLIPWAY_PUBLIC_KEYS"] = key_of(tmp_path, name="theirs").public_pem.decode()
    ended, told = initializer.run(uri(published))
    assert (ended, "is invalid" in told) == (4, True)
    assert list(initializer.destination.iterdir()) == []


@pytest.mark.parametrize("keys", ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_key_that_is_none_lets_nothing_through(
    published: ModelStoreHook, initializer: Initializer, keys: str
) -> None:
    """An empty or unreadable key is an error: it does not mean that no signature is demanded."""
    initializer.settings["SLIPWAY_PUBLIC_KEYS"] = keys
    ended, told = initializer.run(uri(published))
    assert (ended, "cannot be used to check signatures" in told) == (3, True)
    assert list(initializer.destination.iterdir()) == []


@pytest.mark.parametrize(
    "source",
    ["s3://b/models/digits/3", "s3://b/other/digits/3/repository", "gs://b/models/digits/3/repository"],
)
def test_address_of_no_version_is_refused(initializer: Initializer, source: str) -> None:
    """What is not a published version's address is refused before anything is read."""
    ended, told = initializer.run(source)
    assert (ended, "is not a published version" in told) == (3, True)


def test_folder_of_somebody_else_is_left_alone(published: ModelStoreHook, initializer: Initializer) -> None:
    """A folder that holds something which this program did not put there is not touched."""
    (initializer.destination / "precious").write_text("x")
    ended, told = initializer.run(uri(published))
    assert (ended, "holds something already" in told) == (3, True)
    assert [path.name for path in initializer.destination.iterdir()] == ["precious"]


def test_what_was_verified_once_goes_when_it_does_not_hold_any_more(
    published: ModelStoreHook, initializer: Initializer
) -> None:
    """On a later start of the pod an earlier download is no proof: what fails then leaves nothing."""
    assert initializer.run(uri(published)) == (0, "")
    published.write(MODEL, b"an onnx modeL")
    assert initializer.run(uri(published))[0] == 3
    assert list(initializer.destination.iterdir()) == []


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, s3_endpoint: str, image: Path) -> Any:
    """A cluster whose pods reach the object store."""
    node_env = CREDENTIALS | {"AWS_ENDPOINT_URL": s3_endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Emulator(folder, node_env=node_env, pod_scripts_dir=str(POD_SCRIPTS))
    (cluster.folder / "images" / "verify").symlink_to(image)
    cluster.start()
    yield cluster
    cluster.stop()


def shipped_security() -> dict[str, Any]:
    """Return the rights that the shipped ClusterStorageContainer gives the program."""
    shipped = yaml.safe_load(STORAGE_CONTAINER.read_text(encoding="utf-8"))
    rights: dict[str, Any] = shipped["spec"]["container"]["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    return rights


@pytest.mark.parametrize("is_good", [True, False])
def test_as_a_pod(
    published: ModelStoreHook, initializer: Initializer, emulator: Emulator, is_good: bool
) -> None:
    """In a pod it succeeds, or fails with its exit code and its one line as the reason that the kubelet shows."""
    from kubernetes import client

    if not is_good:
        published.write(MODEL, b"an onnx modeL")
    core = client.CoreV1Api(emulator.api_client())
    name = f"verify-{is_good}".lower()
    body = pod(name)
    body["spec"]["containers"] = [
        {
            "name": "storage-initializer",
            "image": "slipway/verify:0.1.0",
            "command": ["verify_repository.py"],
            "args": [uri(published), str(initializer.destination)],
            "env": [{"name": key, "value": value} for key, value in initializer.settings.items()],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            # The destination is no volume here, but a folder of this machine.
            "securityContext": {**shipped_security(), "readOnlyRootFilesystem": False},
        }
    ]
    core.create_namespaced_pod(NAMESPACE, body)
    state = cluster_wait(
        lambda: next(
            (one.state.terminated for one in core.read_namespaced_pod(name, NAMESPACE).status.container_statuses or ()),
            None,
        ),
        "the pod has ended",
        60,
    )  # fmt: skip
    assert state.exit_code == (0 if is_good else 3)
    assert initializer.files() == (PUBLISHED if is_good else {})
    assert is_good or "is not what was published" in state.message


def test_help_needs_no_library(tmp_path: Path) -> None:
    """What it is and what its exit codes mean is told without an S3, a key or a package."""
    program = str(POD_SCRIPTS / "verify_repository.py")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True, timeout=60)
    assert "SOURCE DESTINATION" in done.stdout


ECHO = b"""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(one, "x").as_numpy() for one in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x)]) for x in inputs]
"""
ECHO_CONFIG = b"""
name: "digits"
backend: "python"
input [ { name: "x", data_type: TYPE_FP32, dims: [ 1 ] } ]
output [ { name: "y", data_type: TYPE_FP32, dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU, count: 1 } ]
"""


def test_triton_serves_what_is_there(image: Path, tmp_path: Path) -> None:
    """A tritonserver that loads all it finds in the folder loads the version, and sees no model in what is hidden."""
    from tritonclient.http import InferenceServerClient

    with own_s3(tmp_path) as (endpoint, _, client):
        source = put_version(client, {"digits/1/model.py": ECHO, "digits/config.pbtxt": ECHO_CONFIG})
        initializer = Initializer(image, endpoint, tmp_path / "models")
        assert initializer.run(source) == (0, "")
    install = triton_install()
    ports = TritonPorts.free()
    server = TritonServer(install, initializer.destination, ports, log_path=tmp_path / "triton.log")
    server.start()
    try:
        server.wait_ready(120)
        with InferenceServerClient(f"127.0.0.1:{ports.http}") as triton:
            found = [
                (one["name"], one["version"], one["state"]) for one in triton.get_model_repository_index()
            ]
    finally:
        server.stop()
    assert found == [("digits", "1", "READY")]
