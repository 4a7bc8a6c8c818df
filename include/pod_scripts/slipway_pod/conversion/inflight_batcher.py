"""The Triton repository around TensorRT-LLM's engines: an ensemble of tokenizing, the engine, and detokenizing."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.models.templates import fill_templates

MEMBERS = ("preprocessing", "tensorrt_llm", "postprocessing")


TOKENIZER = "tokenizer"


# The files of a tokenizer; weights stay out.
TOKENIZER_FILES = ("*.json", "*.model", "*.txt", "*.jinja", "*.py", "*.tiktoken")


NOT_TOKENIZER = ("*.safetensors.index.json", "pytorch_model.bin.index.json")


def member_names(model: str) -> dict[str, str]:
    """Return what each template's model is called in this repository; the ensemble has the released model's name."""
    return {"ensemble": model, **{member: f"{model}_{member}" for member in MEMBERS}}


def template_values(options: argparse.Namespace) -> dict[str, Any]:
    """Return a value for each placeholder that has one; a parameter without one is left out of the configuration."""
    names, version = member_names(options.model), options.version
    root = options.serving_root.rstrip("/")
    return {
        "triton_backend": "tensorrtllm",
        "triton_max_batch_size": options.max_batch_size,
        "decoupled_mode": options.streaming,
        "max_queue_delay_microseconds": options.max_queue_delay_us,
        "max_queue_size": 0,
        "max_beam_width": options.max_beam_width,
        "batching_strategy": "V1" if options.no_paged_kv_cache else "inflight_fused_batching",
        "batch_scheduler_policy": options.scheduler,
        "engine_dir": f"{root}/{names['tensorrt_llm']}/{version}",
        "tokenizer_dir": f"{root}/{names['preprocessing']}/{version}/{TOKENIZER}",
        "kv_cache_free_gpu_mem_fraction": options.kv_cache_fraction,
        "enable_kv_cache_reuse": options.kv_cache_reuse,
        "enable_chunked_context": options.chunked_context,
        "exclude_input_in_output": True,
        "add_special_tokens": True,
        "skip_special_tokens": True,
        "multimodal_model_path": "",
        "preprocessing_instance_count": options.tokenizer_instances,
        "postprocessing_instance_count": options.tokenizer_instances,
        "logits_datatype": "TYPE_FP32",
        "encoder_input_features_data_type": "TYPE_FP16",
        "prompt_embedding_table_data_type": "TYPE_FP16",
    }


def make_configs(options: argparse.Namespace) -> dict[str, Any]:
    """Return the ModelConfig of each model, by its name in the repository."""
    return fill_templates(options.templates, member_names(options.model), template_values(options))


def lay_out(options: argparse.Namespace, folder: Path) -> None:
    """Make `repository/` of engine, tokenizer and templates, without the configurations."""
    names, root = member_names(options.model), folder / "repository"
    for template in ("preprocessing", "postprocessing"):
        copy_tree(options.templates / template / "1", root / names[template] / str(options.version))
    copy_tree(folder / "engine", root / names["tensorrt_llm"] / str(options.version))
    tokenizer = root / names["preprocessing"] / str(options.version) / TOKENIZER
    tokenizer.mkdir(parents=True)
    skipped = {path for pattern in NOT_TOKENIZER for path in (folder / "source").glob(pattern)}
    taken = {path for pattern in TOKENIZER_FILES for path in (folder / "source").glob(pattern)} - skipped
    if not any(path.name.startswith("tokenizer") for path in taken):
        raise PodError(
            "InputMissingError",
            "The checkpoint has no tokenizer",
            expected="tokenizer.json or tokenizer.model, and tokenizer_config.json",
            found=", ".join(sorted(path.name for path in taken)) or "none of them",
            remedy="put the tokenizer's files in the folder of the weights",
        )
    for path in sorted(taken):
        shutil.copyfile(path, tokenizer / path.name)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder's files, without what Python left there.

    :raises PodError: there is nothing.
    """
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    if not files:
        raise PodError(
            "ModelInvalidError",
            f"{source} is empty",
            expected="the files of one version",
            found="no file",
            remedy="check the image, and the pod's log of the step that should have written it",
        )
    for path in files:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
