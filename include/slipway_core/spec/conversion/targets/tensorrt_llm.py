"""`target: tensorrt_llm`: engines of a language model, and the repository around them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.conversion.conversion import Uri, conversion_target
from slipway_core.spec.conversion.engines import EngineSettings, LanguageModelResources, S3Url, flags, given
from slipway_core.spec.parts import Count, Quantity, SpecPart


class HubModel(SpecPart):
    """A model of the Hugging Face hub at a commit, so that a build can be repeated."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


@conversion_target
class TensorRtLlmConversion(EngineSettings):
    """Engines of a language model and the repository around them. Not run on a GPU yet."""

    source_formats: ClassVar[tuple[str, ...]] = ("checkpoint",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_tensorrt_llm.py"
    cuts_rows: ClassVar[bool] = False
    default_image: ClassVar[str] = "tensorrt-llm"
    default_disk: ClassVar[Quantity] = "500Gi"
    memory_served: ClassVar[str] = "32Gi"
    smoke_test_image: ClassVar[str | None] = "slipway/smoke-test:0.1.0-tensorrt-llm"
    target: Literal["tensorrt_llm"] = "tensorrt_llm"
    resources: LanguageModelResources = LanguageModelResources()

    precision: Literal["fp16", "bf16", "int8", "int4"] = "bf16"
    """`int8` and `int4`: of the weights alone."""
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    """The type in which int8 and int4 weights are multiplied."""
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
    """Prompt and answer together; default: the model's own limit."""
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
    """Send tokens as they are generated: clients use the streaming call."""
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
        """Return whether the checkpoint is in S3 and not on the hub."""
        return self.hub is None

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return how the engines are built and the repository is filled in, and the limit on memory."""
        arguments = [] if self.hub is None else [
            "--hub-model", self.hub.name, "--hub-revision", self.hub.revision,
        ]  # fmt: skip
        arguments += given(
            self, "precision", "dtype", "family", "tp_size", "pp_size", "max_batch_size", "max_num_tokens",
            "max_input_len", "max_seq_len", "max_beam_width", "gemm_plugin", "kv_cache_fraction", "scheduler",
            "max_queue_delay_us", "tokenizer_instances", "serving_root", "timing_cache",
        )  # fmt: skip
        arguments += flags(
            self, "multiple_profiles", "reduce_fusion", "kv_cache_reuse", "chunked_context", "streaming"
        )
        off = ("paged_kv_cache", "paged_context_fmha")
        arguments += [f"--no-{name.replace('_', '-')}" for name in off if not getattr(self, name)]
        return arguments + self.memory_arguments()
