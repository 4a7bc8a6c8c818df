"""The programs' S3, over the real protocol on loopback: what is kept, and what each fault becomes."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway_pod.errors import PodError
from slipway_pod.storage import s3 as module
from slipway_pod.storage.s3 import Store, store_errors
from slipway_pod.storage.upload import MEBIBYTE
from slipway_sandbox.host.ports import free_port
from tests.support.pods.support import BUCKET, ObjectStore


@pytest.fixture
def own(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The programs' store, with the environment that a pod has."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    return Store()


def head(store: ObjectStore, key: str) -> dict[str, Any]:
    answer: dict[str, Any] = store.client.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
    return answer


def test_an_upload_keeps_its_sha256(own: Store, store: ObjectStore, prefix: str, tmp_path: Path) -> None:
    """S3 knows the SHA-256 of the whole object, so that publishing need not read or copy it to learn it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"model" * 1000)
    measured = own.upload(path, store.url(f"{prefix}/model.onnx"))
    assert measured == {"size_bytes": 5000, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    kept = head(store, f"{prefix}/model.onnx")["ChecksumSHA256"]
    assert kept == b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()


def test_a_large_file_goes_in_parts(
    own: Store, store: ObjectStore, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are known to S3 by the same digest of their digests as to the one who sent them."""
    monkeypatch.setattr(module, "part_bytes", lambda size_bytes: 5 * MEBIBYTE)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4 * 1024 * 12)  # 12 MiB
    measured = own.upload(path, store.url(f"{prefix}/large"))
    answer = head(store, f"{prefix}/large")
    assert answer["ContentLength"] == measured["size_bytes"] == 12 * MEBIBYTE
    assert answer["ETag"].strip('"').endswith("-3")
    assert measured["parts"] == {"size_bytes": 5 * MEBIBYTE, "sha256": answer["ChecksumSHA256"]}
    assert measured["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_written_is_encrypted_as_asked(
    own: Store, store: ObjectStore, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and results carry the encryption that the release asks for; the bucket's key is the bucket's affair."""
    asked = '{"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "a-key", "BucketKeyEnabled": true}'
    monkeypatch.setenv("SLIPWAY_S3_ENCRYPTION", asked)
    path, encrypting = tmp_path / "model.onnx", Store()
    path.write_bytes(b"model")
    encrypting.upload(path, store.url(f"{prefix}/model.onnx"))
    encrypting.write_json({}, store.url(f"{prefix}/result.json"))
    for name in ("model.onnx", "result.json"):
        answer = head(store, f"{prefix}/{name}")
        assert (answer["ServerSideEncryption"], answer["SSEKMSKeyId"]) == ("aws:kms", "a-key")


def test_what_was_read_is_noted(own: Store, store: ObjectStore, prefix: str, tmp_path: Path) -> None:
    """Every download leaves the size and the digest of what came, by its address."""
    store.put(f"{prefix}/model.pt", b"weights")
    url = store.url(f"{prefix}/model.pt")
    own.download(url, tmp_path / "model.pt")
    assert own.inputs == {url: {"size_bytes": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}}


def test_folders_travel_whole(own: Store, store: ObjectStore, prefix: str, tmp_path: Path) -> None:
    """Every file below a folder is put and listed with its digest, and comes back the same."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "1").mkdir(parents=True)
    (source / "1" / "model.py").write_bytes(b"pass\n")
    (source / "config.pbtxt").write_bytes(b"")
    url = store.url(prefix)
    entries = own.upload_folder(source, url)
    assert [(entry["path"], entry["size_bytes"]) for entry in entries] == [
        ("1/model.py", 5),
        ("config.pbtxt", 0),
    ]
    assert entries[0]["sha256"] == hashlib.sha256(b"pass\n").hexdigest()
    assert own.sizes(url) == {"1/model.py": 5, "config.pbtxt": 0}
    assert own.sizes(url, most=1) == {"1/model.py": 5}
    assert own.download_folder(url, target, most=2) == 2
    assert (target / "1" / "model.py").read_bytes() == b"pass\n"


@pytest.mark.parametrize(("most", "found"), [(1, "more than 1"), (None, "none")])
def test_a_folder_that_is_not_as_it_should_be(
    own: Store, store: ObjectStore, prefix: str, tmp_path: Path, most: int | None, found: str
) -> None:
    """No file, or more than are allowed, is a missing input; nothing is downloaded."""
    if most is not None:
        store.put(f"{prefix}/a", b"")
        store.put(f"{prefix}/b", b"")
    with pytest.raises(PodError) as raised:
        own.download_folder(store.url(prefix), tmp_path / "target", most)
    assert (raised.value.kind, raised.value.found) == ("InputMissingError", found)
    assert not (tmp_path / "target").exists()


def test_nothing_is_written_outside_the_folder(
    own: Store, store: ObjectStore, prefix: str, tmp_path: Path
) -> None:
    """A key that leads out of the folder is refused."""
    store.put(f"{prefix}/a/../../outside", b"")
    with pytest.raises(PodError, match="not a plain path"):
        own.download_folder(store.url(prefix), tmp_path / "target")


def test_values_come_back(own: Store, store: ObjectStore, prefix: str) -> None:
    """JSON is written as such and read again; what is none is told; a deleted object is gone, twice without fault."""
    url = store.url(f"{prefix}/result.json")
    own.write_json({"rows": 3}, url)
    assert head(store, f"{prefix}/result.json")["ContentType"] == "application/json"
    assert own.read_json(url) == {"rows": 3}
    store.put(f"{prefix}/broken.json", b"{")
    with pytest.raises(PodError, match="is not JSON"):
        own.read_json(store.url(f"{prefix}/broken.json"))
    own.delete(url)
    own.delete(url)
    assert "result.json" not in store.keys(prefix)


def test_what_need_not_be_there(own: Store, store: ObjectStore, prefix: str, tmp_path: Path) -> None:
    """A cache is fetched where there is one, and its absence is no fault; that of a bucket's server is."""
    target = tmp_path / "timing.cache"
    assert not own.fetch_if_there(store.url(f"{prefix}/timing.cache"), target)
    assert not target.exists()
    store.put(f"{prefix}/timing.cache", b"timed")
    assert own.fetch_if_there(store.url(f"{prefix}/timing.cache"), target)
    assert target.read_bytes() == b"timed"


def test_a_missing_object_is_named(own: Store, store: ObjectStore, prefix: str, tmp_path: Path) -> None:
    """What is not there is an input that is missing, by its address."""
    url = store.url(f"{prefix}/model.onnx")
    with pytest.raises(PodError) as raised:
        own.download(url, tmp_path / "model.onnx")
    assert (raised.value.kind, raised.value.what) == ("InputMissingError", f"There is no {url}")


def test_a_server_that_is_away_may_come_back(
    own: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No answer, for reading and for writing, is to be tried again, a cache's included."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    away, path = Store(), tmp_path / "file"
    path.write_bytes(b"x")
    for act in (
        lambda: away.upload(path, "s3://b/k"),
        lambda: away.fetch_if_there("s3://b/k", tmp_path / "target"),
        lambda: away.write_json({}, "s3://b/k"),
    ):
        with pytest.raises(PodError, match="S3 does not answer for s3://b/k") as raised:
            act()
        assert raised.value.exit_code == 75


@pytest.mark.parametrize(
    ("code", "status", "kind", "found"),
    [
        ("AccessDenied", 403, "UserError", "AccessDenied, HTTP 403"),
        ("NoSuchBucket", 404, "InputMissingError", "NoSuchBucket, HTTP 404"),
        ("SlowDown", 503, "StoreUnavailableError", "SlowDown, HTTP 503"),
    ],
)
def test_what_an_error_answer_becomes(code: str, status: int, kind: str, found: str) -> None:
    """Whose move it is: that of who gives rights, of who uploads, or nobody's."""
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(PodError) as raised, store_errors("s3://b/k"):
        raise ClientError(answer, "PutObject")
    assert (raised.value.kind, raised.value.found) == (kind, found)


def test_no_credentials_is_a_matter_of_roles(
    own: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pod without credentials is told to get a role."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    # boto3 remembers the credentials that it found first.
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(PodError) as raised:
        Store().delete("s3://b/k")
    assert (raised.value.kind, raised.value.what) == ("UserError", "S3 gives no access to s3://b/k")
    assert "role" in str(raised.value.remedy)
