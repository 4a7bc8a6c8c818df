"""From a published version to its validation report for each kind of answer, on a real tritonserver."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator
from slipway.operators.triton import TritonLoadModelOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion

from include.model_release.errors import (
    GoldenSetError,
    LoadRefusedError,
    ModelInvalidError,
    SignatureRefusedError,
    SpecError,
    TimedOutError,
    ValidationRefusedError,
    VersionConflictError,
)
from include.model_release.record.kinds import ReleaseStarted
from include.model_release.record.state import Stage
from include.model_release.spec.release_file import parse_release_spec
from include.sandbox.host.images import build_image
from include.sandbox.services.triton import TritonInstall, TritonPorts, TritonServer
from tests.contract.plugins.conftest import LOOPBACK
from tests.support.serving.text_model import text_ensemble_files, text_model_files

pytestmark = pytest.mark.timeout(180)

CONTEXT: Any = {}
WORDS = {"What is 2 + 2?": ["It", " is", " four."], "And 3 + 3?": ["It", " is", " six."]}
PROMPTS = np.array([[prompt] for prompt in WORDS])
LABELS = np.array(["it is  FOUR.", "It is six."])
CHAT = """
model: chat
source: {format: python}
conversion: {target: python}
validation: {kind: text, output: text_output, score_min: 1, agreement_min: 0.5, timeout_s: 5}
"""
RENT = """
model: rent
source: {format: onnx}
serving: {max_batch_size: 8}
validation: {kind: regression, output: prediction, mae_max: 0.5, r2_min: 0.9, agreement_min: 1, rel_tolerance: 0.1}
"""


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The folder in which the staging server sees its model repository as files."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    return folder


@pytest.fixture
def server(store: ModelStoreHook, tmp_path: Path) -> Iterator[TritonServer]:
    """A staging server over this test's bucket, on which nothing is loaded yet."""
    server = TritonServer(
        TritonInstall.prepare(venv=build_image("triton")),
        f"s3://{store.client.meta.endpoint_url}/{store.bucket}/staging",
        TritonPorts.free(),
        mode="explicit",
        environment={
            "AWS_ACCESS_KEY_ID": "slipway-test",
            "AWS_SECRET_ACCESS_KEY": "slipway-test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        log_path=tmp_path / "triton.log",
        exit_timeout_s=1,
    )
    store.write("staging/README", b"A folder of the object store is there when something is in it.")
    server.start()
    try:
        server.wait_ready(30)
        yield server
    finally:
        server.stop()


@pytest.fixture
def hook(server: TritonServer, mounted: Path, monkeypatch: pytest.MonkeyPatch) -> TritonHook:
    """The hook on that server, whose connection says where it sees its repository as files."""
    connect(monkeypatch, server, repository_path=str(mounted))
    return TritonHook(timeout_s=5)


def connect(monkeypatch: pytest.MonkeyPatch, server: TritonServer, **extra: str) -> None:
    """Point the connection triton_staging at a server."""
    connection = {"conn_type": "generic", "host": LOOPBACK, "port": server.ports.http}
    connection["extra"] = {"grpc_port": server.ports.grpc, **extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", json.dumps(connection))


class Release:
    """One release from its conversion's result on, as the DAG would have it run."""

    def __init__(self, store: ModelStoreHook, text: str, version: int, stable: int | None = None) -> None:
        spec = parse_release_spec(text, "release.yaml")
        uri = f"s3://{store.bucket}/models/{spec.model}/{stable}/repository"
        self.store, self.prepared = store, dict[str, Any]()
        self.release_run = ReleaseRun(
            release_id=f"{spec.model}-{version}",
            model=spec.model,
            version=version,
            bucket=store.bucket,
            spec=spec,
            stable=None if stable is None else StableVersion(version=stable, storage_uri=uri),
        )
        self.rendered = self.release_run.model_dump_json()
        ReleaseRecord(store, spec.model, version, self.release_run.release_id).append(ReleaseStarted())

    def publish(self, files: dict[str, bytes], signature: dict[str, Any], **golden: np.ndarray) -> Release:
        """Lay down what training and the converter leave, the golden set included, and publish it."""
        release_run, buffer = self.release_run, io.BytesIO()
        np.savez(buffer, **golden)  # type: ignore[arg-type, unused-ignore]
        source = dict.fromkeys(release_run.spec.required_files(), b"the converter has read it")
        for name, body in {**source, "golden.npz": buffer.getvalue()}.items():
            self.store.write(release_run.incoming_prefix + name, body)
        ready = {"model": release_run.model, "version": release_run.version}
        self.store.write_json(f"{release_run.incoming_prefix}ready.json", ready)
        result = {"signature": signature, **self._made(files)}
        self.store.write_json(f"{release_run.work_prefix}result.json", result)
        PublishModelOperator(task_id="publish", release=self.rendered).run(CONTEXT)
        return self

    def _made(self, files: dict[str, bytes]) -> dict[str, Any]:
        """What the converter tells of a repository, or of one file."""
        configs = {
            path.split("/")[0]: body.decode() for path, body in files.items() if path.endswith(".pbtxt")
        }
        below, entries = "repository/" if configs else "", []
        for path, body in files.items():
            if not path.endswith(".pbtxt"):
                self.store.write(f"{self.release_run.work_prefix}{below}{path}", body)
                sha256 = hashlib.sha256(body).hexdigest()
                entries.append({"path": path, "file": path, "size_bytes": len(body), "sha256": sha256})
        return {"repository": {"files": entries, "configs": configs}} if configs else {"model": entries[0]}

    def prepare(self) -> Release:
        """Copy both versions to staging."""
        operator = PrepareStagingOperator(task_id="prepare", release=self.rendered)
        self.prepared = operator.run(CONTEXT)
        return self

    def synced(self, folder: Path) -> Release:
        """Bring what lies on staging into a folder, as a mounted bucket shows it."""
        for entry in self.store.entries("staging/"):
            target = folder / entry.key.removeprefix("staging/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.store.read(entry.key) or b"")
        return self

    def load(self) -> Release:
        """Load both, as templates render it."""
        limit = str(self.prepared["load_timeout_s"])
        candidate, baseline = self.prepared["candidate"], self.prepared["baseline"]
        loads: list[TritonLoadModelOperator] = [
            LoadCandidateOperator(
                task_id="load",
                release=self.rendered,
                manifest_sha256=self.prepared["manifest_sha256"],
                timeout_s=limit,
                **_rendered(candidate),
            )
        ]
        if baseline is not None:
            loads.append(TritonLoadModelOperator(task_id="base", timeout_s=limit, **_rendered(baseline)))
        for load in loads:
            load.execute(CONTEXT)
        return self

    def validate(self) -> dict[str, Any]:
        """Validate; return the report, which is there whatever it says."""
        staging = json.dumps(self.prepared)
        ValidateModelOperator(task_id="validate", release=self.rendered, staging=staging).run(CONTEXT)
        return self.report

    @property
    def report(self) -> dict[str, Any]:
        """The validation report as it was written."""
        return dict(self.store.read_json(f"{self.release_run.evidence_prefix}validation.json"))

    @property
    def page(self) -> str:
        """The validation page."""
        return (self.store.read(f"{self.release_run.evidence_prefix}validation.html") or b"").decode()


def _rendered(staged: dict[str, Any]) -> dict[str, Any]:
    config, members = json.dumps(staged["config"]), json.dumps(staged["members"])
    return {"model_name": staged["name"], "config": config, "members": members}


# --- text ---

TEXT_SIGNATURE = {
    "inputs": [
        {"name": "text_input", "datatype": "BYTES", "shape": [-1, 1]},
        {"name": "max_tokens", "datatype": "INT32", "shape": [-1, 1]},
    ],
    "outputs": [{"name": "text_output", "datatype": "BYTES", "shape": [-1, 1]}],
}


def chat(
    store: ModelStoreHook,
    version: int,
    stable: int | None = None,
    words: dict[str, list[str]] | None = None,
    text: str = CHAT,
    **golden: np.ndarray,
) -> Release:
    """Publish a version of the text model; its words lie beside it, as a server of KServe's would find them."""
    files = text_model_files("chat", version, words or WORDS)
    golden = {"text_input": PROMPTS, "label": LABELS, **golden}
    return Release(store, text, version, stable).publish(files, TEXT_SIGNATURE, **golden)


def test_text_model_is_loaded_asked_by_stream_and_compared(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """A streaming model with an optional input passes: its pieces are joined, held to the golden texts and stable's."""
    chat(store, 1, words={**WORDS, "And 3 + 3?": ["Half", " a", " dozen."]})
    release = chat(store, 2, stable=1).prepare().synced(mounted).load()
    assert (
        hook.config("chat", 2)["parameters"]["words_file"]["string_value"] == f"{mounted}/chat/2/words.json"
    )
    baseline = release.prepared["baseline"]["config"]["parameters"]["words_file"]["string_value"]
    assert baseline == f"{mounted}/chat_baseline/1/words.json"
    report = release.validate()
    assert (report["kind"], report["outcome"]) == ("text", "pass")
    assert (report["numbers"]["score"], report["numbers"]["agreement"]) == (1.0, 0.5)
    (example,) = report["worst"]
    assert example["asked"] == "And 3 + 3?"
    assert (example["predicted"], example["stable"]) == ("It is six.", "Half a dozen.")


def test_ensemble_over_a_streaming_member_is_validated(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """An ensemble streams as its member does, and the member's paths get its name on staging: TensorRT-LLM's form."""
    text = CHAT.replace("format: python", "format: repository").replace("target: python", "target: ensemble")
    files = text_ensemble_files("chat", 1, WORDS)
    release = Release(store, text, 1).publish(files, TEXT_SIGNATURE, text_input=PROMPTS, label=LABELS)
    assert release.prepare().synced(mounted).load().validate()["outcome"] == "pass"
    (member,) = release.prepared["candidate"]["members"]
    path = member["config"]["parameters"]["words_file"]["string_value"]
    assert path == f"{mounted}/chat__chat_writer/1/words.json"


def test_streaming_model_without_batches_is_validated(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """A model that takes one text a request, without a batch dimension, is asked row by row: vLLM's form."""
    one = {"datatype": "BYTES", "shape": [1]}
    signature = {
        "inputs": [{"name": "text_input", **one}, {"name": "max_tokens", "datatype": "INT32", "shape": [1]}],
        "outputs": [{"name": "text_output", **one}],
    }
    text = CHAT + "serving: {max_batch_size: 0, dynamic_batching: null}\n"
    files = text_model_files("chat", 1, WORDS, max_batch_size=0)
    release = Release(store, text, 1).publish(files, signature, text_input=PROMPTS[:, 0], label=LABELS)
    assert release.prepare().synced(mounted).load().validate()["outcome"] == "pass"


def test_wrong_text_is_refused_with_what_was_written(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """A text model below its score is refused, and the page shows question, golden answer and answer."""
    words = {**WORDS, "And 3 + 3?": ["It", " is", " <b>five</b>."]}
    release = chat(store, 1, words=words).prepare().synced(mounted).load()
    with pytest.raises(ValidationRefusedError, match=r"score 0\.5000 \(normalized\) over 2 rows"):
        release.validate()
    assert "And 3 + 3?" in release.page
    assert "It is &lt;b&gt;five&lt;/b&gt;." in release.page


def test_optional_input_of_the_golden_set_is_sent(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """Where the golden set has a column for an optional input, the model is given it."""
    limits = np.array([[2], [2]], dtype=np.int32)
    release = chat(store, 1, max_tokens=limits, label=np.array(["It is", "It is"])).prepare().synced(mounted)
    assert release.load().validate()["outcome"] == "pass"


def test_row_without_any_text_is_a_row_without_an_answer(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """A prompt to which the model ends its answer without a response is counted, and refused."""
    release = chat(store, 1, words={**WORDS, "And 3 + 3?": []}).prepare().synced(mounted).load()
    with pytest.raises(ValidationRefusedError, match="1 without an answer"):
        release.validate()


@pytest.mark.parametrize(
    ("word", "error", "words"),
    [("<fail>", ModelInvalidError, "lost for words"), ("<hang>", TimedOutError, "within 2 s")],
)
def test_stream_that_breaks_is_told_as_what_it_is(
    store: ModelStoreHook, hook: TritonHook, mounted: Path, word: str, error: type[Exception], words: str
) -> None:
    """An error in the middle of an answer is the model's; an answer that does not end is cut off by the limit."""
    text = CHAT.replace("timeout_s: 5", "timeout_s: 2")
    broken = {**WORDS, "And 3 + 3?": ["It", word, " six."]}
    release = chat(store, 1, words=broken, text=text).prepare().synced(mounted).load()
    with pytest.raises(error, match=words):
        release.validate()
    # The stream is given back: the same server answers the next request.
    request = {"text_input": np.array([[b"What is 2 + 2?"]], dtype=object)}
    if word == "<fail>":
        assert len(hook.infer_stream("chat", 1, [request], ["text_output"])[0]) == 3


def test_paths_without_a_mount_are_refused_before_anything_is_copied(
    store: ModelStoreHook, server: TritonServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the connection's extra a model that names its files by absolute paths does not get to staging."""
    connect(monkeypatch, server)
    release = chat(store, 1)
    with pytest.raises(
        LoadRefusedError, match=r"`repository_path`.*'triton_staging'.*`words_file` of 'chat'"
    ):
        release.prepare()
    assert [entry.key for entry in store.entries("staging/")] == ["staging/README"]


def test_golden_set_without_a_needed_input_or_with_numbers_for_texts(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """What may be left out is only what the configuration calls optional, and golden answers are texts."""
    release = chat(store, 1, label=np.array([4, 6])).prepare().synced(mounted).load()
    with pytest.raises(GoldenSetError, match=r"`label` holds int64, not texts.*") as caught:
        release.validate()
    assert "`max_tokens`: INT32[-1, 1] (optional)" in str(caught.value)


def test_output_that_the_model_does_not_have_is_named(
    store: ModelStoreHook, hook: TritonHook, mounted: Path
) -> None:
    """`validation.output` must be one of the model's: the message lists them."""
    text = CHAT.replace("output: text_output", "output: answer")
    release = chat(store, 1, text=text).prepare().synced(mounted).load()
    with pytest.raises(SpecError, match=r"no output `answer`.*Expected one of `text_output`"):
        release.validate()


# --- regression ---


def linear_model(slope: float, shape: list[Any]) -> bytes:
    """Return an ONNX model: prediction = slope × area."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["area", "slope"], ["prediction"])],
        "rent",
        [helper.make_tensor_value_info("area", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("prediction", TensorProto.FLOAT, shape)],
        [helper.make_tensor("slope", TensorProto.FLOAT, [1], [slope])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def rent(store: ModelStoreHook, version: int, slope: float, stable: int | None = None) -> Release:
    """Publish a version of the regressor."""
    area = np.arange(1, 21, dtype=np.float32).reshape(-1, 1)
    tensor = {"datatype": "FP32", "shape": [-1, 1]}
    signature = {"inputs": [{"name": "area", **tensor}], "outputs": [{"name": "prediction", **tensor}]}
    files = {"model.onnx": linear_model(slope, ["rows", 1])}
    label = 2.0 * area[:, 0].astype(np.float64)
    return Release(store, RENT, version, stable).publish(files, signature, area=area, label=label)


def test_regressor_is_held_to_its_errors_and_to_stable(store: ModelStoreHook, hook: TritonHook) -> None:
    """A regressor of a number a row passes by its mean absolute error, R², and nearness to the stable version."""
    rent(store, 1, slope=2.1)
    release = rent(store, 2, slope=2.04, stable=1).prepare().load()
    report = release.validate()
    assert (report["kind"], report["outcome"]) == ("regression", "pass")
    numbers = report["numbers"]
    assert numbers["mae"] == pytest.approx(0.04 * 10.5, rel=1e-4)
    assert numbers["r2"] == pytest.approx(1 - (0.04**2 * 143.5) / (4 * 33.25), rel=1e-4)
    assert numbers["agreement"] == 1.0
    assert report["worst"][0]["row"] == 19
    assert "Mean absolute error" in release.page


def test_regressor_that_errs_too_far_is_refused(store: ModelStoreHook, hook: TritonHook) -> None:
    """Errors above the limit, and answers far from stable's, are both told."""
    rent(store, 1, slope=2.0)
    release = rent(store, 2, slope=2.5, stable=1).prepare().load()
    with pytest.raises(
        ValidationRefusedError, match=r"mean absolute error 5\.25.* agreement with version 1 0"
    ) as caught:
        release.validate()
    assert "the mean absolute error is at most 0.5" in (caught.value.expected or "")
    assert "within 0 + 0.1 × its answer" in (caught.value.expected or "")


def test_refused_signature_leaves_its_page_too(store: ModelStoreHook, hook: TritonHook) -> None:
    """A candidate with other tensors is refused unasked; report and page show both sides."""
    rent(store, 1, slope=2.0)
    wide = {"datatype": "FP32", "shape": [-1, 3]}
    signature = {"inputs": [{"name": "area", **wide}], "outputs": [{"name": "prediction", **wide}]}
    release = Release(store, RENT, 2, 1).publish(
        {"model.onnx": linear_model(2.0, ["rows", 3])},
        signature,
        area=np.ones((4, 3), np.float32),
        label=np.ones(4),
    )
    with pytest.raises(SignatureRefusedError, match=r"input `area` was FP32\[-1, 1\] and is FP32\[-1, 3\]"):
        release.prepare().load().validate()
    assert (release.report["outcome"], release.report["stable_version"]) == ("refused", 1)
    row = next(row for row in release.report["tensors"] if row["kind"] == "input")
    assert (row["name"], row["same"]) == ("area", False)
    assert (row["stable"]["shape"], row["candidate"]["shape"]) == ([-1, 1], [-1, 3])
    assert "<td>[-1, 1]</td><td>FP32</td><td>[-1, 3]</td>" in release.page
    (stage,) = [one for one in stages_of(release) if one.name == "validate"]
    assert (stage.outcome, "`area`" in (stage.reason or "")) == ("refused", True)


def test_gates_say_for_which_manifest_they_passed(store: ModelStoreHook, hook: TritonHook) -> None:
    """Staging and validation put the digest of the manifest's bytes into the record, and hold on to that manifest."""
    release = rent(store, 1, slope=2.04)
    release.prepare().load().validate()
    key = "models/rent/1/manifest.json"
    digest = hashlib.sha256(store.read(key) or b"").hexdigest()
    assert release.prepared["manifest_sha256"] == digest
    proved = {stage.name: stage.manifest_sha256 for stage in stages_of(release)}
    assert (proved["stage"], proved["validate"]) == (digest, digest)
    store.write(key, (store.read(key) or b"") + b"\n")
    with pytest.raises(VersionConflictError, match="has changed since it was staged"):
        release.validate()


def stages_of(release: Release) -> tuple[Stage, ...]:
    """What the record says of the release's stages."""
    release_run = release.release_run
    return (
        ReleaseRecord(release.store, release_run.model, release_run.version, release_run.release_id)
        .state()
        .stages
    )
