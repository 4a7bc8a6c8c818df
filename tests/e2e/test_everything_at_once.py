"""One release with everything: PyTorch, variants, a signature, a preview, mirrored requests, a canary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from model_signing.verifying import Config as StandardVerifier

from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.triton_config.pbtxt import from_pbtxt
from slipway_sandbox.demo.chapters import answering_at_the_end
from tests.support.e2e.endings import assert_ended
from tests.support.e2e.release_files import MIRRORED_REQUESTS, ON_CALL
from tests.support.e2e.stories import OnCallStory

VARIANTS = ("whole", "quick")


@pytest.fixture(scope="session")
def manifest(on_call: OnCallStory) -> Manifest:
    """What version 3 consists of."""
    return Manifest.from_bytes(on_call.published["manifest.json"])


def test_every_stage_passes(on_call: OnCallStory) -> None:
    """Conversion of both variants, every gate, preview, mirrored requests and canary pass, in this order."""
    assert_ended(on_call.third, "promoted", run="success")
    assert {stage.outcome for stage in on_call.third.state.stages} == {"passed"}
    conversions = [f"convert-{name}" for name in VARIANTS]
    gates = [
        "choose",
        "publish",
        "smoke_test",
        "stage",
        "validate",
        "benchmark",
        "preview",
        "mirror",
        "canary",
        "promote",
    ]
    stages = [stage.name for stage in on_call.third.state.stages]
    assert (sorted(stages[:2]), stages[2:]) == (sorted(conversions), gates)
    assert [(step.weight, step.verdict) for step in on_call.third.state.canary] == [
        (50, "pass"),
        (80, "pass"),
    ]


def test_no_user_is_failed(on_call: OnCallStory) -> None:
    """From the first version to the third every request of every client is answered, at the end by the third."""
    assert on_call.traffic_after_third.failures == []
    assert set(on_call.traffic_after_third.last.by_protocol) == {"http", "grpc"}
    assert set(answering_at_the_end(on_call.traffic_after_third)) == {"3"}
    service = on_call.service_after_third
    assert service.storage_uri == on_call.third.state.storage_uri
    assert service.alone(service.latest_ready)


def test_each_variant_has_its_parity_table(on_call: OnCallStory) -> None:
    """The evidence holds how each variant compares with torch's answers, over the whole golden set."""
    tables = {name: evidence(on_call, f"convert-{name}.json")["parity"] for name in VARIANTS}
    for table in tables.values():
        assert {(one["output"], one["pass"], one["rows"]) for one in table} == {
            ("label", True, 450),
            ("probabilities", True, 450),
        }
    whole, quick = (one for table in tables.values() for one in table if one["output"] == "probabilities")
    assert (whole["measure"], quick["measure"]) == ("tolerance", "top_k")
    assert whole["max_abs_diff"] < quick["max_abs_diff"]


def test_fastest_variant_is_published(on_call: OnCallStory, manifest: Manifest) -> None:
    """What is served is the file of the variant whose requests took least, with the configuration asked for."""
    tables = {name: evidence(on_call, f"convert-{name}.json") for name in VARIANTS}
    fastest = min(VARIANTS, key=lambda name: tables[name]["latency"]["p50_ms"])
    choice = evidence(on_call, "variants.json")
    assert choice["names"] == [fastest]
    assert {one["name"] for one in choice["candidates"]} == set(VARIANTS)
    model = manifest.files[f"{ON_CALL}/3/model.onnx"]
    assert model.sha256 == tables[fastest]["model"]["sha256"]
    assert manifest.tools["torch"] == tables[fastest]["tools"]["torch"]
    config = from_pbtxt(on_call.published[f"repository/{ON_CALL}/config.pbtxt"].decode())
    assert config["dynamic_batching"]["preferred_batch_size"] == [4, 8]
    (warmup,) = config["model_warmup"]
    assert f"{ON_CALL}/warmup/{warmup['inputs']['pixels']['input_data_file']}" in manifest.files


def test_published_files_are_those_of_the_manifest(on_call: OnCallStory, manifest: Manifest) -> None:
    """Each file that the manifest names lies in the bucket with its size and digest, the attachments too."""
    files = {f"repository/{path}": entry for path, entry in manifest.files.items()}
    for path, entry in {**files, **manifest.attachments}.items():
        assert FileEntry.of(on_call.published[path]) == entry
    assert {"model.sig", "sbom.json", "golden.npz"} <= manifest.attachments.keys()


def test_signature_holds_by_the_standards_verifier(
    on_call: OnCallStory, manifest: Manifest, tmp_path: Path
) -> None:
    """OpenSSF's own verifier accepts a copy of the repository with the key's public half, and no changed byte."""
    for path in manifest.files:
        copy = tmp_path / "copy" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(on_call.published[f"repository/{path}"])
    signature, public = tmp_path / "model.sig", tmp_path / "public.pem"
    signature.write_bytes(on_call.published["model.sig"])
    private = serialization.load_pem_private_key(on_call.key.read_bytes(), None)
    public.write_bytes(
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    StandardVerifier().use_elliptic_key_verifier(public_key=public).verify(tmp_path / "copy", signature)
    (tmp_path / "copy" / ON_CALL / "3" / "model.onnx").write_bytes(b"tampered")
    with pytest.raises(ValueError, match=r"3/model\.onnx"):
        StandardVerifier().use_elliptic_key_verifier(public_key=public).verify(tmp_path / "copy", signature)


def test_users_requests_were_compared_before_the_first_percent(on_call: OnCallStory) -> None:
    """Stable and candidate were asked what users ask, while the candidate had none of them; the report is kept."""
    report = evidence(on_call, "mirror.json")
    assert report["verdict"]["status"] == "pass"
    assert (report["version"], report["stable_version"]) == (3, 1)
    counts = report["report"]["counts"]
    assert counts["compared"] >= MIRRORED_REQUESTS
    assert (counts["candidate_failed"], counts["both_failed"]) == (0, 0)
    assert set(report["report"]["protocols"]) == {"http", "grpc"}
    assert any(name.endswith("/mirror.html") for name in on_call.published)
    compared = next(
        event.at
        for event in on_call.third.events
        if event.kind == "stage_finished" and event.data.stage == "mirror"
    )
    observed = {
        event.data.weight: event.at for event in on_call.third.events if event.kind == "weight_observed"
    }
    assert observed[0] < compared < observed[50]


def evidence(story: OnCallStory, name: str) -> Any:
    """Return a report of version 3's release."""
    (found,) = (
        body
        for path, body in story.published.items()
        if path.startswith("evidence/") and path.endswith(f"/{name}")
    )
    return json.loads(found)
