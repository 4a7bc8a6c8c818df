"""Engines, built on a GPU by TensorRT and TensorRT-LLM."""

from __future__ import annotations

import json
import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from slipway_core.spec.conversion.parity import ParityRules
from slipway_core.spec.conversion.target import LONGEST_CONVERSION_S, TargetSettings, Uri
from slipway_core.spec.parts import Count, Quantity, SpecPart, size_of
from slipway_core.spec.pods.resources import GpuCount, MemoryQuantity, Resources
from slipway_core.spec.pods.settings import StartupSeconds

_S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\s]+")


def _s3_url(text: str) -> str:
    if not _S3_URL.fullmatch(text):
        raise ValueError("must be an address of the form s3://BUCKET/KEY")
    return text.rstrip("/")


S3Url = Annotated[str, AfterValidator(_s3_url)]
Mebibytes = Annotated[int, Field(ge=1, le=10_000_000)]
Shape = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class ShapeRange(SpecPart):
    """The smallest, usual and largest shape of an input, batch first."""

    min: Shape
    opt: Shape
    max: Shape

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ValueError("`min`, `opt` and `max` need the same number of sizes")
        if any(not a <= b <= c for a, b, c in zip(self.min, self.opt, self.max, strict=True)):
            raise ValueError("each size needs min <= opt <= max")
        return self


class EngineResources(Resources):
    """What a pod that builds engines asks of its node."""

    cpu: Quantity = "4"
    memory: MemoryQuantity = "16Gi"
    gpu: GpuCount = 0
    """Left out: as many as the build needs."""


class LanguageModelResources(EngineResources):
    """The same for a language model, whose weights are read whole."""

    cpu: Quantity = "8"
    memory: MemoryQuantity = "96Gi"


class EngineSettings(TargetSettings):
    """What the two conversions on a GPU share: GPUs, time for a node and a large image to come, long builds."""

    default_disk: ClassVar[Quantity] = "100Gi"
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_CONVERSION_S)] = 7200
    startup_timeout_s: StartupSeconds = 1800
    resources: EngineResources = EngineResources()
    memory_mib: Mebibytes | None = None
    """Limit for the builders' own memory on the host; left out: seven eighths of `resources.memory`."""

    @property
    def gpus(self) -> int:
        """Return how many GPUs the build needs."""
        return 1

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        asked, memory = self.resources, self.resources.memory
        if "gpu" not in asked.model_fields_set:
            self.__dict__["resources"] = asked.filled(gpu=max(asked.gpu, self.gpus))
        elif asked.gpu < self.gpus:
            raise ValueError(f"`resources.gpu: {asked.gpu}` is too few: the build needs {self.gpus}")
        if self.memory_mib is not None and self.memory_mib * 2**20 > size_of(memory):
            raise ValueError(
                f"`memory_mib: {self.memory_mib}` is above the pod's `resources.memory: {memory}`"
            )
        return self

    def memory_arguments(self) -> list[str]:
        """Return the limit on the builders' memory."""
        return ["--memory-mib", str(self.memory_mib or self.tools_memory_mib)]


class TensorRtConversion(EngineSettings):
    """An engine, built from ONNX for one kind of GPU. Not run on a GPU yet."""

    compares: ClassVar[bool] = True
    makes_engine: ClassVar[bool] = True
    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    program: ClassVar[str] = "convert_tensorrt.py"
    default_image: ClassVar[str] = "tensorrt"
    target: Literal["tensorrt"] = "tensorrt"

    precision: Literal["fp32", "fp16", "int8"] = "fp16"
    max_batch_size: Count = 64
    """Of the profile that is made for a model of which only the batch varies."""
    opt_batch_size: Count | None = None
    """The batch that this profile is tuned for; left out: the largest."""
    profiles: tuple[dict[str, ShapeRange], ...] = ()
    """Optimisation profiles, each with the shapes of every input."""
    calibration: S3Url | None = None
    """With int8: rows of training data (.npz), from which the scales are taken."""
    calibration_cache: S3Url | None = None
    """With int8: a prefix where scales are kept, by the source's SHA-256; read if they are there, else written."""
    timing_cache: S3Url | None = None
    """A prefix where timings are kept from build to build, by GPU and TensorRT."""
    workspace_mib: Mebibytes | None = None
    """GPU memory for scratch space; left out: all there is."""
    builder_optimization_level: Annotated[int, Field(ge=0, le=5)] = 3
    tf32: bool = False
    sparse_weights: bool = False
    refittable: bool = False
    version_compatible: bool = False
    """Later versions of the same major TensorRT may load the engine; it may be slower."""
    hardware_compatibility: Literal["none", "same_compute_capability", "ampere_plus"] = "none"
    precision_constraints: Literal["none", "prefer", "obey"] = "none"
    tactic_sources: tuple[
        Literal["cublas", "cublas_lt", "cudnn", "edge_mask_convolutions", "jit_convolutions"], ...
    ] = ()
    max_aux_streams: Annotated[int, Field(ge=0, le=64)] | None = None
    parity: ParityRules = ParityRules()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        has_scales = self.calibration is not None or self.calibration_cache is not None
        if self.precision == "int8" and not has_scales:
            raise ValueError("`precision: int8` needs `calibration` or `calibration_cache`")
        if self.precision != "int8" and has_scales:
            raise ValueError("`calibration` and `calibration_cache` are only for `precision: int8`")
        if self.opt_batch_size is not None and self.opt_batch_size > self.max_batch_size:
            raise ValueError(f"`opt_batch_size` is above `max_batch_size: {self.max_batch_size}`")
        return self

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return how the engine is built, the tolerances and the limit on memory."""
        arguments = ["--precision", self.precision, "--max-batch-size", str(self.max_batch_size)]
        for profile in self.profiles:
            text = json.dumps({name: shapes.model_dump(mode="json") for name, shapes in profile.items()})
            arguments += ["--profile", text]
        arguments += _given(
            self, "opt_batch_size", "calibration", "calibration_cache", "timing_cache", "workspace_mib",
            "builder_optimization_level", "hardware_compatibility", "precision_constraints",
            "max_aux_streams",
        )  # fmt: skip
        for source in self.tactic_sources:
            arguments += ["--tactic-source", source]
        arguments += _flags(self, "tf32", "sparse_weights", "refittable", "version_compatible")
        return [*arguments, *self.parity.arguments(), *self.memory_arguments()]


class HubModel(SpecPart):
    """A model of the Hugging Face hub at a commit, so that a build can be repeated."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class TensorRtLlmConversion(EngineSettings):
    """Engines of a language model and the repository around them. Not run on a GPU yet."""

    source_formats: ClassVar[tuple[str, ...]] = ("checkpoint",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_tensorrt_llm.py"
    cuts_rows: ClassVar[bool] = False
    default_image: ClassVar[str] = "tensorrt-llm"
    default_disk: ClassVar[Quantity] = "500Gi"
    target: Literal["tensorrt_llm"] = "tensorrt_llm"
    resources: LanguageModelResources = LanguageModelResources()

    precision: Literal["fp16", "bf16", "int8", "int4"] = "bf16"
    """`int8` and `int4`: of the weights alone."""
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    """What int8 and int4 weights are multiplied in."""
    hub: HubModel | None = None
    """Instead of a checkpoint in S3; the pod needs a way to the hub, and HF_TOKEN for a gated model."""
    family: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] = "llama"
    """The folder of TensorRT-LLM's examples whose convert_checkpoint.py is run."""
    tp_size: Annotated[int, Field(ge=1, le=64)] = 1
    pp_size: Annotated[int, Field(ge=1, le=64)] = 1
    max_batch_size: Count = 256
    max_num_tokens: Count = 8192
    """Tokens of one step, all requests together; more than 16384 costs memory and seldom helps."""
    max_input_len: Count = 1024
    max_seq_len: Count | None = None
    """Prompt and answer together; left out: the model's own limit."""
    max_beam_width: Count = 1
    multiple_profiles: bool = True
    reduce_fusion: bool = False
    paged_kv_cache: bool = True
    paged_context_fmha: bool = True
    gemm_plugin: Literal["auto", "float16", "bfloat16", "disable"] = "auto"
    kv_cache_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    kv_cache_reuse: bool = False
    chunked_context: bool = False
    scheduler: Literal["guaranteed_no_evict", "max_utilization"] = "guaranteed_no_evict"
    streaming: bool = True
    """Tokens as they come: clients use the streaming call."""
    max_queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    tokenizer_instances: Annotated[int, Field(ge=1, le=64)] = 1
    serving_root: Annotated[str, Field(pattern=r"^/[\w./-]*$")] = "/mnt/models"
    """Where the servers have the repository: engines and tokenizers are named by absolute paths."""
    timing_cache: S3Url | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.reduce_fusion and self.tp_size == 1:
            raise ValueError("`reduce_fusion` is for `tp_size` above 1")
        if (self.kv_cache_reuse or self.chunked_context) and not (
            self.paged_kv_cache and self.paged_context_fmha
        ):
            raise ValueError(
                "`kv_cache_reuse` and `chunked_context` need `paged_kv_cache` and `paged_context_fmha`"
            )
        if self.max_seq_len is not None and self.max_seq_len < self.max_input_len:
            raise ValueError(f"`max_seq_len` counts the prompt too: `max_input_len: {self.max_input_len}`")
        if self.dtype != "auto" and self.precision in ("fp16", "bf16"):
            raise ValueError("`dtype` is only for `precision: int8` and `int4`")
        return self

    @property
    def gpus(self) -> int:
        """Return one for each part of the model."""
        return self.tp_size * self.pp_size

    @property
    def has_source(self) -> bool:
        """Tell whether the checkpoint is in S3 and not on the hub."""
        return self.hub is None

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return how the engines are built and the repository is filled in, and the limit on memory."""
        arguments = [] if self.hub is None else [
            "--hub-model", self.hub.name, "--hub-revision", self.hub.revision,
        ]  # fmt: skip
        arguments += _given(
            self, "precision", "dtype", "family", "tp_size", "pp_size", "max_batch_size", "max_num_tokens",
            "max_input_len", "max_seq_len", "max_beam_width", "gemm_plugin", "kv_cache_fraction", "scheduler",
            "max_queue_delay_us", "tokenizer_instances", "serving_root", "timing_cache",
        )  # fmt: skip
        arguments += _flags(
            self, "multiple_profiles", "reduce_fusion", "kv_cache_reuse", "chunked_context", "streaming"
        )
        off = ("paged_kv_cache", "paged_context_fmha")
        arguments += [f"--no-{name.replace('_', '-')}" for name in off if not getattr(self, name)]
        return arguments + self.memory_arguments()


def _given(part: SpecPart, *names: str) -> list[str]:
    return [
        text
        for name in names
        if getattr(part, name) is not None
        for text in (f"--{name.replace('_', '-')}", str(getattr(part, name)))
    ]


def _flags(part: SpecPart, *names: str) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names if getattr(part, name)]
