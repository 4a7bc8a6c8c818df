"""A release file that names a key: publishing signs, and nothing unsigned is staged, loaded or led to users."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException
from cryptography.hazmat.primitives.asymmetric import ec

from slipway import release_context
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.publish import PublishModelOperator
from slipway.operators.restore import ArmRollbackOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey, load_signing_key, sign
from slipway.registry.verification import verify_version
from slipway.release_run import ReleaseRun
from slipway_core.errors import (
    GateRefusedError,
    SigningRefusedError,
    UserError,
    VersionConflictError,
)
from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.spec.release_file import Signing
from slipway_sandbox.lab.simulation.knative_model import KnativeModel
from tests.support.canary.doubles import LeaseDouble, ServiceDouble
from tests.support.release.release_steps import load_of
from tests.support.release.scale_release import MODEL, convert, release_run_of, run, state_of
from tests.support.store.signing_keys import key_of, pem

pytestmark = pytest.mark.timeout(600)

ROOT = f"models/{MODEL}/1/"
PROGRAM = f"{ROOT}repository/{MODEL}/1/model.py"
FOREIGN = b"raise SystemExit  # not what was published\n"


@pytest.fixture
def release_run(store: ModelStoreHook, tmp_path: Path) -> ReleaseRun:
    """Version 1 is converted; its release file names `ours` as the key."""
    key_of(tmp_path, name="ours")
    key_of(tmp_path, name="theirs")
    release_run = signed_by(store, tmp_path, "ours")
    convert(store, release_run)
    return release_run


def signed_by(store: ModelStoreHook, folder: Path, name: str, **options: Any) -> ReleaseRun:
    """A release run whose release file names this key."""
    return release_run_of(store, signing={"private_key_file": str(folder / f"{name}.pem")}, **options)


def test_signed_version_is_staged_loaded_and_answers(
    store: ModelStoreHook, release_run: ReleaseRun, hook: TritonHook
) -> None:
    """Publishing signs with the key that the release file names, and what is signed goes its way."""
    run(PublishModelOperator, release_run)
    manifest = ModelRegistry(store).require(MODEL, 1)
    assert {"golden.npz", "model.sig", "recipe.json", "sbom.json"} == set(manifest.attachments)
    prepared = run(PrepareStagingOperator, release_run)
    run(LoadCandidateOperator, release_run, **load_of(prepared["candidate"]))
    answer = hook.infer(MODEL, 1, {"x": np.ones((1, 2), np.float32)}, ["y"])["y"]
    assert answer.tolist() == [[2, 2]]
    assert [(stage.name, stage.outcome) for stage in state_of(store, release_run).stages] == [
        ("publish", "passed"),
        ("stage", "passed"),
    ]


def test_workers_that_only_verify_have_the_public_half(
    store: ModelStoreHook, release_run: ReleaseRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection holds the private key where versions are published; staging needs the public one alone."""
    ours = release_run_of(store, signing={"connection": "signing"})
    private = ec.generate_private_key(ec.SECP256R1())
    monkeypatch.setenv(
        "AIRFLOW_CONN_SIGNING", json.dumps({"conn_type": "generic", "password": pem(private).decode()})
    )
    run(PublishModelOperator, ours)
    public = load_signing_key(ours.spec.publish.signing).public_pem.decode()  # type: ignore[arg-type]
    verifying = {"conn_type": "generic", "extra": {"public_key": public}}
    monkeypatch.setenv("AIRFLOW_CONN_SIGNING", json.dumps(verifying))
    assert run(PrepareStagingOperator, ours)["candidate"]["name"] == MODEL


def published_unsigned(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """The version was published before the release file named a key."""
    run(PublishModelOperator, release_run_of(store))


def signed_by_another(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """The version was published by somebody with a key of their own."""
    run(PublishModelOperator, signed_by(store, folder, "theirs"))


def signature_lost(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has deleted the signature."""
    run(PublishModelOperator, release_run)
    store.delete(f"{ROOT}model.sig")


def signature_changed(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has written over the signature."""
    run(PublishModelOperator, release_run)
    store.write(f"{ROOT}model.sig", b"{}")


def file_changed(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has written over a file of the model."""
    run(PublishModelOperator, release_run)
    store.write(PROGRAM, FOREIGN)


def changed_manifest(store: ModelStoreHook) -> Manifest:
    """A manifest that goes with the changed file."""
    manifest = ModelRegistry(store).require(MODEL, 1)
    files = {**manifest.files, f"{MODEL}/1/model.py": FileEntry.of(FOREIGN)}
    return manifest.model_copy(update={"files": files})


def file_and_manifest_changed(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has written over a file and made the manifest agree."""
    file_changed(store, release_run, folder)
    store.write(f"{ROOT}manifest.json", changed_manifest(store).to_bytes())


def everything_signed_anew(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has written over a file, made the manifest agree, and signed it all with a key of their own."""
    file_changed(store, release_run, folder)
    changed = changed_manifest(store)
    signature = sign(changed, key_of(folder, name="somebody"))
    entries = {**changed.attachments, "model.sig": FileEntry.of(signature)}
    store.write(f"{ROOT}model.sig", signature)
    store.write(f"{ROOT}manifest.json", changed.model_copy(update={"attachments": entries}).to_bytes())


Trouble = Callable[[ModelStoreHook, ReleaseRun, Path], None]
TROUBLES: dict[str, tuple[Trouble, type[Exception], str]] = {
    "unsigned": (published_unsigned, SigningRefusedError, "version 1 of 'scale' is not signed"),
    "foreign key": (signed_by_another, SigningRefusedError, "is invalid"),
    "signature lost": (signature_lost, UserError, r"model\.sig is missing"),
    "signature changed": (signature_changed, UserError, r"model\.sig is not the file"),
    "file and manifest changed": (file_and_manifest_changed, SigningRefusedError, "is invalid"),
    "all signed anew": (everything_signed_anew, SigningRefusedError, "is invalid"),
}
STAGING = {**TROUBLES, "file changed": (file_changed, UserError, r"model\.py is not the file")}


def refused(
    operator: Any,
    store: ModelStoreHook,
    release_run: ReleaseRun,
    stage: str,
    trouble: tuple[type[Exception], str],
) -> None:
    """Execute the operator; it fails for good, with these words, and the record says which stage it was and why."""
    kind, words = trouble
    with pytest.raises(AirflowFailException, match=words) as caught:
        run(operator, release_run)
    assert isinstance(caught.value.__cause__, kind)
    state = state_of(store, release_run)
    is_refusal = issubclass(kind, GateRefusedError)
    told = {one.name: one.outcome for one in state.stages}
    assert told[stage] == ("refused" if is_refusal else "failed")
    assert state.refused_by == (stage if is_refusal else None)
    assert state.reason == str(caught.value)


@pytest.mark.parametrize(("trouble", "kind", "words"), STAGING.values(), ids=STAGING)
def test_nothing_is_loaded_that_the_key_has_not_signed(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    hook: TritonHook,
    tmp_path: Path,
    trouble: Trouble,
    kind: type[Exception],
    words: str,
) -> None:
    """A real Triton has nothing to load and loads nothing; the task is not tried again, and the record says why."""
    trouble(store, release_run, tmp_path)
    refused(PrepareStagingOperator, store, release_run, "stage", (kind, words))
    staged = {entry.key: store.read(entry.key) for entry in store.entries(f"staging/{MODEL}/")}
    assert [key for key in staged if key.endswith(".py")] == []
    assert FOREIGN not in staged.values()
    assert [entry for entry in hook.index() if entry.is_ready] == []


@pytest.fixture
def service(store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch) -> ServiceDouble:
    """An InferenceService, in a model of Knative, on which another version has all users."""
    model = KnativeModel()
    uri = release_run_of(store, stable=9).stable
    assert uri is not None
    model.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": uri.storage_uri}}}})
    model.settle()
    double = ServiceDouble(model)
    lease = LeaseDouble()
    monkeypatch.setattr(release_context, "KServeHook", lambda *arguments: double)
    monkeypatch.setattr(release_context, "LeaseHook", lambda *arguments: lease)
    return double


def file_added(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has laid a file beside the signed ones; an inference server would download it."""
    run(PublishModelOperator, release_run)
    store.write(f"{ROOT}repository/{MODEL}/2/model.py", FOREIGN)


def file_lost(store: ModelStoreHook, release_run: ReleaseRun, folder: Path) -> None:
    """Somebody has deleted a signed file."""
    run(PublishModelOperator, release_run)
    store.delete(PROGRAM)


ARMING = {
    **TROUBLES,
    "file changed": (file_changed, SigningRefusedError, r"1/model\.py: .*SHA-256"),
    "file added": (file_added, SigningRefusedError, r"2/model\.py: no object"),
    "file lost": (file_lost, SigningRefusedError, "no object"),
}


@pytest.mark.parametrize(("trouble", "kind", "words"), ARMING.values(), ids=ARMING)
def test_no_user_is_led_to_what_the_key_has_not_signed(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    service: ServiceDouble,
    tmp_path: Path,
    trouble: Trouble,
    kind: type[Exception],
    words: str,
) -> None:
    """Before the first percent the repository is looked at again: it may have changed since it was staged."""
    trouble(store, release_run, tmp_path)
    refused(ArmRollbackOperator, store, signed_by(store, tmp_path, "ours", stable=9), "canary", (kind, words))
    assert service.patches == []


def test_no_user_is_led_to_other_bytes_where_nobody_signs(
    store: ModelStoreHook, release_run: ReleaseRun, service: ServiceDouble, tmp_path: Path
) -> None:
    """Without a key the manifest is what the repository is held against."""
    file_changed(store, release_run, tmp_path)
    unsigned = release_run_of(store, stable=9)
    refused(ArmRollbackOperator, store, unsigned, "canary", (VersionConflictError, r"1/model\.py: .*SHA-256"))
    assert service.patches == []


def test_what_is_signed_may_be_led_to_users(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    service: ServiceDouble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The canary is armed over a signed version, by the store's own digests: no file of the model is read for it."""
    run(PublishModelOperator, release_run)
    read: list[str] = []
    whole = ModelStoreHook.sha256
    monkeypatch.setattr(
        ModelStoreHook, "sha256", lambda self, key, *rest: read.append(key) or whole(self, key, *rest)
    )
    assert run(ArmRollbackOperator, signed_by(store, tmp_path, "ours", stable=9)) is not None
    assert read == []
    assert state_of(store, release_run).refused_by is None


def test_stable_version_may_be_older_than_the_key(
    store: ModelStoreHook, release_run: ReleaseRun, tmp_path: Path
) -> None:
    """What serves already is compared with though nobody signed it."""
    run(PublishModelOperator, release_run_of(store))
    later = signed_by(store, tmp_path, "ours", version=2, stable=1)
    convert(store, later, factor=3.0)
    run(PublishModelOperator, later)
    assert run(PrepareStagingOperator, later)["baseline"]["version"] == 1


@pytest.fixture
def later(store: ModelStoreHook, release_run: ReleaseRun, tmp_path: Path) -> ReleaseRun:
    """Version 2, signed with our key, is to follow version 1, which was signed with another."""
    run(PublishModelOperator, signed_by(store, tmp_path, "theirs"))
    later = signed_by(store, tmp_path, "ours", version=2, stable=1)
    convert(store, later, factor=3.0)
    run(PublishModelOperator, later)
    return later


def test_stable_version_of_a_foreign_key_is_left_out(store: ModelStoreHook, later: ReleaseRun) -> None:
    """A signature that does not hold is no signature of long ago: not a byte is staged, and the record says why."""
    staging = run(PrepareStagingOperator, later)
    assert staging["baseline"] is None
    assert "version 1 of 'scale' is invalid" in staging["not_compared"]
    assert staging["model_names"] == [MODEL]
    assert store.entries(f"staging/{MODEL}_baseline/") == []
    stages = {stage.name: stage for stage in state_of(store, later).stages}
    assert stages["stage"].outcome == "running", "it has still to be loaded"
    assert (stages["baseline"].outcome, stages["baseline"].reason) == ("left_out", staging["not_compared"])


def test_replaced_key_is_accepted_where_the_release_file_says_so(
    store: ModelStoreHook, later: ReleaseRun, tmp_path: Path
) -> None:
    """After a change of keys the live version, signed with the old one, is compared with as before."""
    old = key_of_old(tmp_path / "theirs.pem").public_pem.decode()
    signing = {"private_key_file": str(tmp_path / "ours.pem"), "verify_keys": [old]}
    staging = run(PrepareStagingOperator, release_run_of(store, 2, stable=1, signing=signing))
    assert (staging["baseline"]["version"], staging["not_compared"]) == (1, "")


def key_of_old(path: Path) -> SigningKey:
    """The key in a file."""
    return load_signing_key(Signing(private_key_file=str(path)))


def no_key(folder: Path) -> dict[str, str]:
    """A file that is not there."""
    return {"private_key_file": str(folder / "nowhere.pem")}


def public_key_only(folder: Path) -> dict[str, str]:
    """The half that cannot sign."""
    path = folder / "public.pem"
    path.write_bytes(key_of_ours(folder).public_pem)
    return {"public_key_file": str(path)}


def no_connection(folder: Path) -> dict[str, str]:
    """A connection that nobody made."""
    return {"connection": "no_such_key"}


@pytest.mark.parametrize(
    ("signing", "words"),
    [
        (no_key, r"nowhere\.pem cannot be read"),
        (public_key_only, "only the public key"),
        (no_connection, "'no_such_key' is missing"),
    ],
)
def test_what_cannot_be_signed_is_not_published(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    tmp_path: Path,
    signing: Callable[[Path], dict[str, str]],
    words: str,
) -> None:
    """Without the private key nothing is decided; with it the same release goes through."""
    keyless = release_run_of(store, signing=signing(tmp_path))
    refused(PublishModelOperator, store, keyless, "publish", (UserError, words))
    assert store.entries("models/") == []
    run(PublishModelOperator, release_run)
    assert verify_version(store, MODEL, 1, key_of_ours(tmp_path)) == []


def key_of_ours(folder: Path) -> SigningKey:
    """The release file's key, read from its file."""
    return load_signing_key(Signing(private_key_file=str(folder / "ours.pem")))
