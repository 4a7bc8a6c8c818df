"""The options of the GPU targets, and the converters' arguments that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import convert_tensorrt
import convert_tensorrt_llm
from slipway_core.spec.conversion.engines import EngineSettings
from slipway_core.spec.conversion.targets.tensorrt import TensorRtConversion
from slipway_core.spec.conversion.targets.tensorrt_llm import TensorRtLlmConversion
from slipway_pod.conversion import calibration

_PLACES = ["--source", "s3://bkt/m.onnx", "--golden", "s3://bkt/g.npz", "--destination", "s3://bkt/work"]


def _trt(**options: Any) -> TensorRtConversion:
    return TensorRtConversion.model_validate_json(json.dumps(options))


def _llm(**options: Any) -> TensorRtLlmConversion:
    return TensorRtLlmConversion.model_validate_json(json.dumps(options))


def test_an_engine_with_everything() -> None:
    """Every option reaches the program, and the program understands it."""
    profile = {"x": {"min": [1, 4], "opt": [8, 4], "max": [16, 4]}}
    options = _trt(
        precision="int8",
        max_batch_size=16,
        opt_batch_size=8,
        profiles=[profile],
        calibration="s3://bkt/calibration.npz",
        calibration_cache="s3://bkt/caches/ranker.cache",
        timing_cache="s3://bkt/timings/",
        workspace_mib=4096,
        builder_optimization_level=5,
        tf32=True,
        sparse_weights=True,
        refittable=True,
        version_compatible=True,
        hardware_compatibility="ampere_plus",
        precision_constraints="prefer",
        tactic_sources=["cublas", "cudnn"],
        max_aux_streams=2,
    )
    read = convert_tensorrt.arguments([*_PLACES, *options.converter_arguments(str)])
    assert read.profile == [{"min": {"x": [1, 4]}, "opt": {"x": [8, 4]}, "max": {"x": [16, 4]}}]
    assert read.timing_cache == "s3://bkt/timings"
    for name in TensorRtConversion.model_fields.keys() - EngineSettings.model_fields.keys():
        if name not in ("parity", "profiles", "timing_cache", "tactic_sources"):
            assert getattr(read, name) == getattr(options, name), name
    assert read.tactic_source == ["cublas", "cudnn"]


def test_an_engine_with_nothing_said() -> None:
    """The defaults: half precision, a profile up to 64, no caches."""
    read = convert_tensorrt.arguments([*_PLACES, *_trt().converter_arguments(str)])
    assert (read.precision, read.max_batch_size, read.profile, read.timing_cache) == ("fp16", 64, [], None)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"precision": "int8"}, "calibration"),
        ({"calibration": "s3://bkt/c.npz"}, "only for"),
        ({"opt_batch_size": 65}, "max_batch_size"),
        ({"profiles": [{"x": {"min": [2], "opt": [1], "max": [4]}}]}, "min <= opt"),
        ({"profiles": [{"x": {"min": [1], "opt": [1, 2], "max": [4]}}]}, "same number"),
        ({"timing_cache": "/tmp/cache"}, "s3://"),
    ],
)
def test_an_engine_that_cannot_be(options: dict[str, Any], word: str) -> None:
    """Options that contradict each other are told in the release file's words."""
    with pytest.raises(ValidationError, match=word):
        _trt(**options)


def test_a_language_model_with_everything() -> None:
    """Every option reaches the program, and the program understands it."""
    options = _llm(
        precision="int4",
        dtype="bfloat16",
        hub={"name": "meta-llama/Llama-3.2-1B-Instruct", "revision": "a" * 40},
        family="qwen",
        tp_size=2,
        pp_size=2,
        max_batch_size=2048,
        max_num_tokens=16384,
        max_input_len=500,
        max_seq_len=505,
        max_beam_width=2,
        multiple_profiles=True,
        reduce_fusion=True,
        gemm_plugin="disable",
        kv_cache_fraction=0.5,
        kv_cache_reuse=True,
        chunked_context=True,
        scheduler="max_utilization",
        streaming=True,
        max_queue_delay_us=500,
        tokenizer_instances=4,
        serving_root="/models",
        timing_cache="s3://bkt/timings",
    )
    places = ["--destination", "s3://bkt/work", "--model", "chat", "--version", "3"]
    read = convert_tensorrt_llm.arguments([*places, *options.converter_arguments(str)])
    assert (read.hub_model, read.hub_revision) == ("meta-llama/Llama-3.2-1B-Instruct", "a" * 40)
    for name in TensorRtLlmConversion.model_fields.keys() - EngineSettings.model_fields.keys():
        if name not in ("hub", "paged_kv_cache", "paged_context_fmha"):
            assert getattr(read, name) == getattr(options, name), name
    assert not read.no_paged_kv_cache
    unpaged = _llm(paged_kv_cache=False, paged_context_fmha=False)
    off = convert_tensorrt_llm.arguments(
        [
            *places,
            "--source",
            "s3://bkt/c",
            *unpaged.converter_arguments(str),
        ]
    )
    assert off.no_paged_kv_cache
    assert off.no_paged_context_fmha


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"reduce_fusion": True}, "tp_size"),
        ({"kv_cache_reuse": True, "paged_kv_cache": False}, "paged_kv_cache"),
        ({"max_seq_len": 10}, "max_input_len"),
        ({"dtype": "float16"}, "precision"),
        ({"hub": {"name": "a/b", "revision": "main"}}, "revision"),
    ],
)
def test_a_language_model_that_cannot_be(options: dict[str, Any], word: str) -> None:
    """Options that contradict each other are told in the release file's words."""
    with pytest.raises(ValidationError, match=word):
        _llm(**options)


# ---------------------------------------------------------------- the tools' own command lines


def _commands(options: TensorRtLlmConversion) -> tuple[list[str], list[str]]:
    places = ["--source", "s3://bkt/c", "--destination", "s3://bkt/w", "--model", "chat", "--version", "3"]
    read = convert_tensorrt_llm.arguments([*places, *options.converter_arguments(str)])
    folder = Path("/w")
    build = convert_tensorrt_llm.engine_command(read, folder, has_timings=True)
    return convert_tensorrt_llm.checkpoint_command(read, folder), build


def test_the_command_lines_of_a_language_model() -> None:
    """convert_checkpoint.py and trtllm-build of TensorRT-LLM 0.21, as its command reference has them."""
    options = _llm(tp_size=2, max_batch_size=2048, max_num_tokens=16384, max_seq_len=2048, reduce_fusion=True)
    convert, build = _commands(options)
    assert " ".join(convert) == (
        "/usr/bin/python3 /opt/tensorrt-llm/examples/models/core/llama/convert_checkpoint.py "
        "--model_dir /w/source --output_dir /w/checkpoint --dtype bfloat16 --tp_size 2 --pp_size 1 --workers 2"
    )
    assert " ".join(build) == (
        "trtllm-build --checkpoint_dir /w/checkpoint --output_dir /w/engine --max_batch_size 2048 "
        "--max_num_tokens 16384 --max_input_len 1024 --max_seq_len 2048 --max_beam_width 1 --kv_cache_type paged "
        "--remove_input_padding enable --gpt_attention_plugin auto --gemm_plugin auto "
        "--use_paged_context_fmha enable --multiple_profiles enable --reduce_fusion enable --workers 2 "
        "--input_timing_cache /w/timing.cache --output_timing_cache /w/timing.cache"
    )


def test_weights_alone_may_be_quantised() -> None:
    """int4 weights: two arguments more for the checkpoint, and the multiplication's own type."""
    convert, _ = _commands(_llm(precision="int4", dtype="float16"))
    assert " ".join(convert).endswith(
        " --dtype float16 --tp_size 1 --pp_size 1 --workers 1 --use_weight_only --weight_only_precision int4"
    )


def test_without_a_paged_cache() -> None:
    """A contiguous cache also turns off what is built on pages, and batching in flight in the configuration."""
    options = _llm(paged_kv_cache=False, multiple_profiles=False)
    _, build = _commands(options)
    joined = " ".join(build)
    assert "--kv_cache_type continuous" in joined
    assert "--use_paged_context_fmha disable --multiple_profiles disable --reduce_fusion disable" in joined


def _build(options: TensorRtConversion, profiles: list[Any], **more: bool) -> str:
    read = convert_tensorrt.arguments([*_PLACES, *options.converter_arguments(str)])
    return " ".join(convert_tensorrt.build_command(read, Path("/w"), profiles, **more))


_PROFILE = {"min": {"x": [1, 4]}, "opt": {"x": [8, 4]}, "max": {"x": [16, 4]}}
_START = "polygraphy convert /w/source.onnx --convert-to trt --output /w/model.plan"


def test_the_command_line_of_a_plain_engine() -> None:
    """Half precision, one profile, timings written."""
    assert _build(_trt(), [_PROFILE]) == (
        f"{_START} --fp16 --trt-min-shapes x:[1, 4] --trt-opt-shapes x:[8, 4] --trt-max-shapes x:[16, 4] "
        "--save-timing-cache /w/timing.cache --builder-optimization-level 3"
    )


def test_the_command_line_of_a_tuned_engine() -> None:
    """int8 with scales from a cache, two profiles, every flag; what takes many values comes last."""
    options = _trt(
        precision="int8",
        calibration_cache="s3://bkt/c",
        workspace_mib=2048,
        builder_optimization_level=5,
        tf32=True,
        sparse_weights=True,
        refittable=True,
        version_compatible=True,
        hardware_compatibility="ampere_plus",
        precision_constraints="obey",
        max_aux_streams=1,
        tactic_sources=["cublas", "cudnn"],
    )
    other = {"min": {"x": [1, 4]}, "opt": {"x": [1, 4]}, "max": {"x": [1, 4]}}
    assert _build(options, [_PROFILE, other], has_timings=True) == (
        f"{_START} --fp16 --int8 --calibration-cache /w/calibration.cache "
        "--trt-min-shapes x:[1, 4] --trt-opt-shapes x:[8, 4] --trt-max-shapes x:[16, 4] "
        "--trt-min-shapes x:[1, 4] --trt-opt-shapes x:[1, 4] --trt-max-shapes x:[1, 4] "
        "--load-timing-cache /w/timing.cache --save-timing-cache /w/timing.cache --builder-optimization-level 5 "
        "--pool-limit workspace:2048M --tf32 --sparse-weights --refittable --version-compatible "
        "--hardware-compatibility-level ampere_plus --precision-constraints obey --max-aux-streams 1 "
        "--tactic-sources cublas cudnn"
    )


def test_new_scales_are_taken_from_rows() -> None:
    """Without a cache the builder reads calibration rows by a file of the pods' package, which names the function."""
    command = _build(_trt(precision="int8", calibration="s3://bkt/c.npz"), [_PROFILE], calibrates=True)
    assert f"--data-loader-script {calibration.__file__}:calibration_batches" in command
    assert callable(calibration.calibration_batches)
