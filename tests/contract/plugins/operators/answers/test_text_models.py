"""From a published version to its validation report for each kind of answer, on a real tritonserver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import (
    GoldenSetError,
    LoadRefusedError,
    ModelInvalidError,
    SpecError,
    TimedOutError,
    ValidationRefusedError,
)
from slipway_sandbox.services.triton import TritonServer
from tests.support.release.staged_answers import (
    CHAT,
    LABELS,
    PROMPTS,
    TEXT_SIGNATURE,
    WORDS,
    Release,
    chat,
    connect,
)
from tests.support.serving.text_model import text_ensemble_files, text_model_files

pytestmark = pytest.mark.timeout(600)


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
    assert (report["kind"], report["outcome"]) == ("text", "warn")
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
    assert release.prepare().synced(mounted).load().validate()["outcome"] == "warn"
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
    assert release.prepare().synced(mounted).load().validate()["outcome"] == "warn"


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
    assert release.load().validate()["outcome"] == "warn"


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
