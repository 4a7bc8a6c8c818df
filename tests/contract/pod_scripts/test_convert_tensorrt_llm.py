"""convert_tensorrt_llm.py over an S3 on loopback, with doubles of NVIDIA's programs: not run on a GPU yet."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway_core.publishing.engine import engine_of
from slipway_core.tensors import ModelSignature
from slipway_core.triton_config.pbtxt import from_pbtxt
from tests.support.pods.doubles import TensorRtLlmDouble
from tests.support.pods.support import PROJECT_ROOT, ObjectStore, Pod, PodRun, check_software_list

_TEMPLATES = PROJECT_ROOT / "tests" / "support" / "pods" / "inflight_batcher"
_CHECKPOINT = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "model.safetensors.index.json": b"{}",
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
}


class _Pod(Pod):
    """A pod of this environment, which has tritonclient's messages, with the doubles in front."""

    double: TensorRtLlmDouble

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        return self.double.environment(super().environment(endpoint))


@pytest.fixture
def pod(store: ObjectStore, tmp_path: Path) -> _Pod:
    pod = _Pod(Path(sys.executable).parents[1], store, (tmp_path,))
    pod.double = TensorRtLlmDouble.make(tmp_path, Path(sys.executable))
    templates = tmp_path / "templates"
    shutil.copytree(_TEMPLATES, templates)
    for name in ("preprocessing", "postprocessing", "tensorrt_llm"):
        (templates / name / "1" / "__pycache__").mkdir(parents=True)
        (templates / name / "1" / "__pycache__" / "model.pyc").write_bytes(b"")
        (templates / name / "1" / "model.py").write_text(f"# {name}\n")
    return pod


def put_checkpoint(store: ObjectStore, key: str, **changes: bytes | None) -> str:
    for name, body in {**_CHECKPOINT, **changes}.items():
        if body is not None:
            store.put(f"{key}/{name}", body)
    return store.url(key)


def convert(pod: _Pod, prefix: str, source: str, *more: str) -> PodRun:
    return pod.run(
        "convert_tensorrt_llm.py",
        *("--source", source, "--model", "chat", "--version", "7"),
        *("--templates", str(pod.double.folder / "templates"), "--examples", str(pod.double.folder)),
        *("--tool-python", sys.executable),
        *more,
        prefix=prefix,
    )


def test_the_repository(pod: _Pod, store: ObjectStore, prefix: str) -> None:
    """Engines, tokenizer and programs lie where the server looks for them, each with its digest in the result."""
    source = put_checkpoint(store, f"{prefix}-in")
    run = convert(pod, prefix, source, "--tp-size", "2", "--timing-cache", store.url("llm"))
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    files = {
        "chat_postprocessing/7/model.py",
        "chat_preprocessing/7/model.py",
        "chat_preprocessing/7/tokenizer/config.json",
        "chat_preprocessing/7/tokenizer/tokenizer.json",
        "chat_preprocessing/7/tokenizer/tokenizer_config.json",
        "chat_tensorrt_llm/7/config.json",
        "chat_tensorrt_llm/7/rank0.engine",
        "chat_tensorrt_llm/7/rank1.engine",
    }
    assert {entry["path"] for entry in run.result["repository"]["files"]} == files
    assert store.keys(f"{prefix}/repository") == files
    check_software_list(run, store, prefix, "tritonclient")
    assert set(run.result["repository"]["configs"]) == {
        "chat",
        "chat_preprocessing",
        "chat_tensorrt_llm",
        "chat_postprocessing",
    }
    engine = engine_of(run.result)
    assert engine is not None
    assert (engine.gpu, engine.compute_capability, engine.gpus) == ("NVIDIA L40S", "8.9", 2)
    assert store.read("llm/nvidia-l40s-sm8.9-trtunknown.cache") == b"timed"
    signature = ModelSignature.model_validate(run.result["signature"])
    assert [str(tensor) for tensor in signature.inputs] == ["INT32[-1, 1]", "BOOL[-1, 1]", "BYTES[-1, 1]"]


def test_the_tools_command_lines(pod: _Pod, store: ObjectStore, prefix: str) -> None:
    """The checkpoint is converted, then the engines are built, each with what the release asked for."""
    source = put_checkpoint(store, f"{prefix}-in")
    run = convert(
        pod, prefix, source, "--max-batch-size", "8", "--max-num-tokens", "2048", "--precision", "int8"
    )
    assert run.exit_code == 0, run.stderr
    convert_line, build_line = (" ".join(command) for command in pod.double.commands)
    assert convert_line.startswith("convert_checkpoint.py --model_dir ")
    assert convert_line.endswith(
        "--dtype auto --tp_size 1 --pp_size 1 --workers 1 --use_weight_only --weight_only_precision int8"
    )
    assert "--max_batch_size 8 --max_num_tokens 2048 --max_input_len 1024 --max_beam_width 1" in build_line
    assert run.result is not None
    assert run.result["build"]["commands"][1][:3] == ["trtllm-build", "--checkpoint_dir", "./checkpoint"]


def test_the_configurations(pod: _Pod, store: ObjectStore, prefix: str) -> None:
    """Each placeholder has a value of its own type; a parameter that nobody set is left out, as hand-checked here."""
    source = put_checkpoint(store, f"{prefix}-in")
    run = convert(pod, prefix, source, "--max-batch-size", "8", "--streaming", "--kv-cache-reuse")
    assert run.result is not None
    configs = {name: from_pbtxt(text) for name, text in run.result["repository"]["configs"].items()}
    assert configs["chat_tensorrt_llm"] == {
        "name": "chat_tensorrt_llm",
        "backend": "tensorrtllm",
        "max_batch_size": 8,
        "model_transaction_policy": {"decoupled": True},
        "dynamic_batching": {"preferred_batch_size": [8], "default_queue_policy": {}},
        "input": [
            _tensor("input_ids", "INT32", -1, allow_ragged_batch=True, optional=True),
            _tensor("encoder_input_features", "FP16", -1, -1, optional=True),
            _tensor("input_lengths", "INT32", 1, reshape={}),
            _tensor("request_output_len", "INT32", 1, reshape={}),
            _tensor("draft_logits", "FP32", -1, -1, optional=True),
            _tensor("prompt_embedding_table", "FP16", -1, -1, optional=True),
        ],
        "output": [
            _tensor("output_ids", "INT32", -1, -1),
            _tensor("sequence_length", "INT32", -1),
            _tensor("context_logits", "FP32", -1, -1),
        ],
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        "parameters": _parameters(
            max_beam_width="1",
            FORCE_CPU_ONLY_INPUT_TENSORS="no",
            gpt_model_type="inflight_fused_batching",
            gpt_model_path="/mnt/models/chat_tensorrt_llm/7",
            batch_scheduler_policy="guaranteed_no_evict",
            kv_cache_free_gpu_mem_fraction="0.9",
            exclude_input_in_output="true",
            enable_kv_cache_reuse="true",
            enable_chunked_context="false",
            executor_worker_path="/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker",
        ),
    }
    tokenizer = "/mnt/models/chat_preprocessing/7/tokenizer"
    assert configs["chat_preprocessing"]["parameters"] == _parameters(
        tokenizer_dir=tokenizer, add_special_tokens="true", multimodal_model_path=None
    )
    assert configs["chat_postprocessing"]["parameters"] == _parameters(
        tokenizer_dir=tokenizer, skip_special_tokens="true"
    )
    ensemble = configs["chat"]
    assert (ensemble["name"], ensemble["platform"], ensemble["max_batch_size"]) == ("chat", "ensemble", 8)
    assert [tensor["name"] for tensor in ensemble["output"]] == ["text_output", "context_logits"]
    assert [step["model_name"] for step in ensemble["ensemble_scheduling"]["step"]] == [
        "chat_preprocessing",
        "chat_tensorrt_llm",
        "chat_postprocessing",
    ]


def _tensor(name: str, kind: str, *dims: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "data_type": f"TYPE_{kind}", "dims": list(dims), **more}


def _parameters(**values: str | None) -> dict[str, Any]:
    return {key: {} if value is None else {"string_value": value} for key, value in values.items()}


def test_a_placeholder_that_nobody_knows_is_told_before_the_build(
    pod: _Pod, store: ObjectStore, prefix: str
) -> None:
    """Templates of another TensorRT-LLM end the run before hours of building, with the placeholder's name."""
    path = pod.double.folder / "templates" / "tensorrt_llm" / "config.pbtxt"
    path.write_text(path.read_text().replace("decoupled: ${decoupled_mode}", "decoupled: ${brand_new}"))
    run = convert(pod, prefix, put_checkpoint(store, f"{prefix}-in"))
    assert run.exit_code == 3
    assert "${brand_new}" in run.error["found"]
    assert not (pod.double.folder / "commands").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer.json": None, "tokenizer_config.json": None}, "no tokenizer"),
        ({"config.json": None}, "no config.json"),
    ],
)
def test_half_a_checkpoint_is_told(
    pod: _Pod, store: ObjectStore, prefix: str, changes: dict[str, None], words: str
) -> None:
    """A checkpoint without tokenizer or configuration is the input's fault."""
    run = convert(pod, prefix, put_checkpoint(store, f"{prefix}-in", **changes))
    assert run.exit_code == 3
    assert words in run.error["what"]


def test_gpus_of_two_kinds_are_refused(pod: _Pod, store: ObjectStore, prefix: str) -> None:
    """An engine is for one kind of GPU; a pod with two says nothing of which."""
    (pod.double.folder / "gpus").write_text("NVIDIA L4, 8.9, 1\nNVIDIA H100, 9.0, 1\n")
    run = convert(pod, prefix, put_checkpoint(store, f"{prefix}-in"))
    assert "NVIDIA H100, NVIDIA L4" in run.error["found"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--reduce-fusion",), "--tp-size"),
        (("--hub-model", "a/b"), "either --source or --hub-model"),
        (("--chunked-context", "--no-paged-kv-cache"), "paged"),
    ],
)
def test_contradicting_arguments_are_wrong_usage(
    pod: _Pod, store: ObjectStore, prefix: str, more: tuple[str, ...], words: str
) -> None:
    """Exit code 2, and the two arguments that do not go together."""
    run = convert(pod, prefix, store.url("nowhere"), *more)
    assert run.exit_code == 2
    assert words in run.stderr
