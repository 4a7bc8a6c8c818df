"""Publishing with encryption: asked for by the release file or the connection, and kept on every object."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission import facts
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import PrepareStagingOperator
from slipway_core.errors import UserError
from tests.support.examples import each_with_each
from tests.support.release.published_objects import below, encryption_of
from tests.support.release.scale_release import MODEL, convert, release_run_of, run

ENCRYPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "AES256": ({"algorithm": "AES256"}, {"ServerSideEncryption": "AES256"}),
    "the account's key": ({}, {"ServerSideEncryption": "aws:kms"}),
    "dsse": ({"algorithm": "aws:kms:dsse"}, {"ServerSideEncryption": "aws:kms:dsse"}),
    "a key": (
        {"kms_key_id": "alias/models"},
        {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/models"},
    ),
    "the bucket's key": (
        {"kms_key_id": "alias/models", "bucket_key": True},
        {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/models", "BucketKeyEnabled": True},
    ),
}


def of_connection(encryption: dict[str, Any]) -> dict[str, Any]:
    """How the connection's extra asks for the same."""
    names = {
        "algorithm": "server_side_encryption",
        "kms_key_id": "sse_kms_key_id",
        "bucket_key": "bucket_key_enabled",
    }
    return {names[field]: value for field, value in {"algorithm": "aws:kms", **encryption}.items()}


def ask_by_connection(monkeypatch: pytest.MonkeyPatch, store: ModelStoreHook, s3: dict[str, Any]) -> None:
    """Let the connection aws_default ask for an encryption."""
    extra = {
        "endpoint_url": store.client.meta.endpoint_url,
        "region_name": "us-east-1",
        "service_config": {"s3": s3},
    }
    connection = {"conn_type": "aws", "login": "slipway-test", "password": "slipway-test", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(connection))


def release_all(
    monkeypatch: pytest.MonkeyPatch, store: ModelStoreHook, folder: Path, **publish: Any
) -> list[str]:
    """Admit, keep a gate's evidence, publish and stage; return every key that Airflow's tasks have written."""
    release_run = release_run_of(store, **publish)
    convert(store, release_run)
    given = set(below(store, ""))
    (folder / "scale.yaml").write_text(
        json.dumps(release_run.spec.model_dump(mode="json", exclude_unset=True))
    )
    monkeypatch.setattr(facts, "observe_service", lambda service: None)
    admit = AdmitReleaseOperator(task_id="admit", releases_dir=str(folder), bucket=store.bucket)
    admit.execute(
        {  # type: ignore[arg-type]
            "params": {"model": MODEL, "version": 1},
            "run_id": "admitted",
            "dag": SimpleNamespace(dag_id="model_release"),
            "ti": SimpleNamespace(get_dagrun_state=lambda *_: "running"),
        }
    )
    gate = ConvertModelOperator(task_id="convert", release=release_run.model_dump_json(), namespace="models")
    gate.judge(release_run, {"parity": "measured"})
    run(PublishModelOperator, release_run)
    run(PrepareStagingOperator, release_run)
    written = [key for key in below(store, "") if key not in given]
    for prefix in ("records/", "staging/", f"models/{MODEL}/1/evidence/", f"models/{MODEL}/1/repository/"):
        assert any(key.startswith(prefix) for key in written), prefix
    return written


@pytest.mark.parametrize(
    ("encryption", "expected", "asks"), each_with_each(ENCRYPTIONS, ["release file", "connection"])
)
def test_everything_is_encrypted_as_asked(
    store: ModelStoreHook,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    encryption: dict[str, Any],
    expected: dict[str, Any],
    asks: str,
) -> None:
    """Version, record, evidence and staging's copies are encrypted as the release file says, else the connection."""
    by_file = {} if asks == "connection" else {"encryption": encryption or {"algorithm": "aws:kms"}}
    if asks == "connection":
        ask_by_connection(monkeypatch, store, of_connection(encryption))
    for key in release_all(monkeypatch, store, tmp_path, **by_file):
        assert encryption_of(store, key) == expected, key


def test_release_file_goes_before_the_connection(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where both ask for something nothing of the connection's is mixed in."""
    ask_by_connection(monkeypatch, store, {"server_side_encryption": "aws:kms", "sse_kms_key_id": "other"})
    for key in release_all(monkeypatch, store, tmp_path, encryption={"algorithm": "AES256"}):
        assert encryption_of(store, key) == {"ServerSideEncryption": "AES256"}, key


def test_without_a_word_the_bucket_decides(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where neither asks for anything no request names an encryption, so that the bucket's own holds."""
    rule = {
        "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "the bucket's"}
    }
    store.client.put_bucket_encryption(
        Bucket=store.bucket, ServerSideEncryptionConfiguration={"Rules": [rule]}
    )
    for key in release_all(monkeypatch, store, tmp_path):
        assert encryption_of(store, key)["SSEKMSKeyId"] == "the bucket's", key


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"server_side_encryption": "kms"}, "server_side_encryption: "),
        ({"server_side_encryption": "AES256", "sse_kms_key_id": "k"}, "need `algorithm: aws:kms`"),
        ({"bucket_key_enabled": "perhaps"}, "bucket_key_enabled: "),
    ],
)
def test_encryption_that_there_is_not(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], words: str
) -> None:
    """A connection that asks for what cannot be had is named with its field, before anything is written."""
    ask_by_connection(monkeypatch, store, asked)
    with pytest.raises(UserError, match=f"'aws_default' are invalid.*{words}"):
        ModelStoreHook(store.bucket).write("k", b"")
    assert not store.exists("k")
