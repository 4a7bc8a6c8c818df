"""A bucket as a team has it after some weeks: models that are live, in flight, held, refused; with evidence.

What is written is written by the real writers, or has the form that the real readers parse.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry, StoredSource
from slipway_core.bucket_layout import evidence_prefix, live_key
from slipway_core.doctor.report import REPORT_KEY
from slipway_core.operations.audit import AuditEntry
from slipway_core.operations.freezes import freeze
from slipway_core.operations.layout import audit_key, findings_prefix
from slipway_core.operations.pins import Pin, pin_key
from slipway_core.operations.revalidation.findings import Finding
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.read_model.live import ExposureUsed, LiveDocument, LiveSample, LiveWindow
from slipway_core.record.kinds import (
    RaiseHeld,
    ReleaseFinished,
    StageStarted,
    VersionUnrejected,
)
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.pbtxt import from_pbtxt
from tests.support.reports.canary_pages import failing, page_of
from tests.support.web.attempts import PLAN, Attempt
from tests.support.web.examined import examined


def fill(store: ModelStoreHook, now: datetime) -> None:
    """Write all of it."""
    _digits(store, now)
    _waiting(store, now)
    _quiet(store, now)
    _write_context(store, now)
    store.write(REPORT_KEY, examined(now - timedelta(hours=3)).to_bytes())


def release_files(folder: Path) -> None:
    """Write release files: some with windows, one of a model that was never released."""
    office = "{days: [mon, tue, wed, thu], opens: '09:00', closes: '16:00', time_zone: Europe/Berlin}"
    night = "{days: [mon, tue, wed, thu, fri, sat, sun], opens: '22:00', closes: '02:00'}"
    windows = {"fraud-score": [office], "search-ranker": [office, night], "churn": []}
    for model in (
        "digits",
        "fraud-score",
        "churn",
        "search-ranker",
        "text-embed",
        "vision-ocr",
        "intent",
        "magika",
    ):
        lines = [f"model: {model}", "source: {format: onnx, model_file: model.onnx, golden_file: golden.npz}"]
        if windows.get(model):
            lines += ["rollout:", "  release_windows:", *(f"    - {one}" for one in windows[model])]
        (folder / f"{model}.yaml").write_text("\n".join(lines) + "\n")


def _digits(store: ModelStoreHook, now: datetime) -> None:
    first = Attempt(store, "digits", 1, None, now - timedelta(days=21))
    first.begin()
    first.promote()
    second = Attempt(store, "digits", 2, 1, now - timedelta(days=12), by="jonas")
    second.begin()
    second.roll_back("errors rose from 0.4 % to 8.1 %: evidence 340 against a threshold of 100")
    store.write(
        f"{evidence_prefix('digits', 2, 'digits-2')}canary.html",
        page_of(failing).encode(),
        content_type="text/html",
    )
    third = Attempt(store, "digits", 3, 1, now - timedelta(days=6), by=None)
    third.refuse("validate", "accuracy 0.871 is below 0.9")
    fourth = Attempt(
        store, "digits", 4, 1, now - timedelta(days=3), approvals=("canary",), reason="new data of May"
    )
    fourth.begin()
    fourth.approve("jonas")
    fourth.promote()
    store.write_once(
        pin_key("digits", 4), Pin(by="mira", at=now, reason="the reference of the paper").to_bytes()
    )
    fifth = Attempt(store, "digits", 5, 4, now - timedelta(minutes=14))
    fifth.begin()
    fifth.say(StageStarted(stage="canary"))
    fifth.step(5, "pass", requests=230)
    fifth.step(25, requests=812, errors=3)
    _live_document(store, "digits", 5, now)
    for version in (1, 2, 4, 5):
        _publish(store, "digits", version, now - timedelta(days=21 - 4 * version))
        _reports(store, "digits", version)


def _waiting(store: ModelStoreHook, now: datetime) -> None:
    """Write releases that need a person."""
    for number in range(9, 12):
        one = Attempt(
            store,
            "fraud-score",
            number,
            number - 1 if number > 9 else None,
            now - timedelta(days=60 - number),
        )
        one.begin()
        one.promote()
    asked = Attempt(
        store, "fraud-score", 12, 11, now - timedelta(minutes=50), by="jonas", approvals=("canary",)
    )
    asked.begin()
    asked.say(StageStarted(stage="approve"))
    first = Attempt(store, "search-ranker", 7, None, now - timedelta(days=40))
    first.begin()
    first.promote()
    held = Attempt(store, "search-ranker", 8, 7, now - timedelta(hours=5), by=None)
    held.begin()
    held.say(StageStarted(stage="canary"))
    held.step(5, "pass")
    held.say(
        RaiseHeld(
            weight=25,
            hold="'search-ranker' is frozen by olga: the sale of the year",
            until=now + timedelta(days=2),
        )
    )


def _quiet(store: ModelStoreHook, now: datetime) -> None:
    """Write models of which nothing is under way."""
    for model, days in (("churn", 30), ("text-embed", 90), ("vision-ocr", 14), ("intent", 5)):
        first = Attempt(store, model, 3, None, now - timedelta(days=days))
        first.begin()
        first.promote()
    back = Attempt(store, "churn", 4, 3, now - timedelta(days=2), by="olga")
    back.begin()
    back.roll_back("p99 latency rose from 41 ms to 96 ms: evidence 120 against a threshold of 100")
    lifted = VersionUnrejected(
        reason="the node was slow, not the model", by="jonas", rejection_seq=back.next_seq - 2
    )
    back.say(lifted)
    failed = Attempt(store, "vision-ocr", 4, 3, now - timedelta(hours=20))
    failed.begin(until="convert", ends="failed", reason="the converter ran out of memory (4 GiB)")
    failed.say(ReleaseFinished(outcome="failed", reason="the converter ran out of memory (4 GiB)"))


def _write_context(store: ModelStoreHook, now: datetime) -> None:
    """Write freezes, a finding and what was done after the release day."""
    for model, by, days, reason in (
        ("search-ranker", "olga", 2, "the sale of the year"),
        (None, "ops", 0.2, "network maintenance in rack <4>"),
    ):
        key, content = freeze(
            model, who=by, now=now, until=now + timedelta(days=days), reason=reason, run_id=f"{by}-{days}"
        )
        store.write_once(key, content)
    finding = Finding(
        model="text-embed",
        version=3,
        check="inputs",
        is_unchecked=False,
        status="open",
        summary="the inputs have drifted: PSI 0.31 of `length`, above 0.2",
        first_seen_at=now - timedelta(days=2),
        last_seen_at=now - timedelta(hours=3),
        last_run="scheduled",
        opened_at=now - timedelta(days=2),
    )
    store.write(f"{findings_prefix('text-embed')}{finding.name}.json", finding.to_bytes())
    entry = AuditEntry(
        act="deletion-finished",
        model="intent",
        version=1,
        run="gc-1",
        at=now - timedelta(days=4),
        by="mira",
        approved_by="jonas",
        reason="older than the ten that are kept",
        objects=12,
        size_bytes=40 << 20,
    )
    store.write_once(audit_key("intent", 1, "gc-1", "deletion-finished"), entry.to_bytes())
    for version in (4, 5, 6):
        for name in ("model.onnx", "golden.npz"):
            store.write(f"incoming/digits/{version}/{name}", b"made up")
    for version in (5, 6):
        ready = json.dumps({"model": "digits", "version": version}).encode()
        store.write(f"incoming/digits/{version}/ready.json", ready)


def _live_document(store: ModelStoreHook, model: str, version: int, now: datetime) -> None:
    windows = tuple(_window(now - timedelta(seconds=10 * (30 - place)), place) for place in range(30))
    document = LiveDocument(
        model=model,
        version=version,
        release_id=f"{model}-{version}",
        written_at=now,
        step=2,
        weights=PLAN,
        weight_intended=25,
        weight_observed=25,
        step_elapsed_s=190,
        step_bake_s=600,
        max_bake_s=1200,
        window_s=10,
        next_decision_at=now + timedelta(minutes=7),
        exposure=ExposureUsed(requests=1042, errors=4, max_requests=20_000, max_errors=60),
        verdict="inconclusive",
        reason="no difference so far; the bake is not over",
        windows=windows,
    )
    store.write(live_key(model), document.to_bytes())


def _window(at: datetime, place: int) -> LiveWindow:
    def sample(requests: int, errors: int, p99: float) -> LiveSample:
        return LiveSample(
            requests=requests,
            errors=errors,
            error_percent=100 * errors / requests,
            error_percent_low=0.0,
            error_percent_high=100 * (errors + 2) / requests,
            p50_ms=p99 / 4,
            p99_ms=p99,
        )

    return LiveWindow(
        at=at,
        seconds=10,
        weight=25 if place > 10 else 5,
        status="inconclusive",
        reason="no difference so far",
        stable=sample(120, place % 2, 38 + place % 5),
        candidate=sample(40, place % 3 == 0, 40 + place % 7),
        evidence={"errors": 1 + place / 10, "latency": 1 + place / 20},
        total_evidence=1 + place / 8,
        threshold=100,
        no_worse=1 + place,
        no_worse_threshold=20,
    )


def _publish(store: ModelStoreHook, model: str, version: int, at: datetime) -> None:
    """Publish a version; what is served differs a little from one to the next."""
    config = f"""name: "{model}"
platform: "onnxruntime_onnx"
max_batch_size: {32 * version}
input {{ name: "pixels" data_type: TYPE_FP32 dims: 64 }}
output {{ name: "probabilities" data_type: TYPE_FP32 dims: 10 }}
dynamic_batching {{ max_queue_delay_microseconds: {500 + 250 * version} }}
""".encode()
    content = f"an onnx model {version}".encode() * (1000 * version)
    golden = f"incoming/{model}/{version}/golden.npz"
    work = f"work/{model}/{version}/convert/model.onnx"
    store.write(golden, b"a golden set")
    store.write(work, content)
    path = f"{model}/{version}/model.onnx"
    manifest = Manifest(
        model=model,
        version=version,
        created_at=at,
        files={f"{model}/config.pbtxt": FileEntry.of(config), path: FileEntry.of(content)},
        config_sha256=config_sha256(from_pbtxt(config)),
        signature=ModelSignature(
            inputs=(TensorSpec(name="pixels", datatype="FP32", shape=(-1, 64)),),
            outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 10)),),
        ),
        source=Provenance(
            dataset_version=f"2026-{version:02d}",
            accuracy=0.9 + version / 100,
            trained_at=at - timedelta(hours=3),
            framework="scikit-learn",
            metadata={"notebook": f"train-{version}.ipynb"},
            files={"golden.npz": FileEntry.of(b"a golden set")},
        ),
        tools={"onnxslim": "0.1.50", "skl2onnx": "1.19"},
        project_commit="4f1c0de" * 5,
    )
    sources: dict[str, bytes | StoredSource] = {f"{model}/config.pbtxt": config, path: StoredSource(work)}
    assert ModelRegistry(store).publish(manifest, sources, golden)


def _reports(store: ModelStoreHook, model: str, version: int) -> None:
    prefix = evidence_prefix(model, version, f"{model}-{version}")
    numbers = {"rows": 360, "accuracy": 0.93 + version / 200, "agreement": 0.97, "accuracy_min": 0.9}
    store.write(f"{prefix}validation.json", json.dumps({"numbers": numbers}).encode())
    comparisons = [
        {
            "figure": "p99",
            "unit": "ms",
            "candidate": 5.2 + version / 10,
            "stable": 5.1,
            "limit": "at most 25 ms",
        },
        {
            "figure": "throughput",
            "unit": "requests/s",
            "candidate": 840.0 - version,
            "stable": 835.0,
            "limit": "",
        },
    ]
    store.write(f"{prefix}benchmark/verdict.json", json.dumps({"comparisons": comparisons}).encode())


def utc_now() -> datetime:
    """Return the present time, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
