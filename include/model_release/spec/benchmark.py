"""The release file's `benchmark`: how fast a version must answer on staging."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from include.model_release.spec.parts import (
    Count,
    ImageReference,
    Milliseconds,
    Percent,
    PodSettings,
    Seconds,
    SpecPart,
    Text,
)


class ServiceLevel(SpecPart):
    """What the candidate must reach by itself."""

    p99_ms: Milliseconds = 100.0
    throughput_min_rps: Annotated[float, Field(ge=0)] = 0.0
    error_percent_max: Percent = 0.0
    ttft_p99_ms: Milliseconds | None = None
    """Time to first token; for models that stream text."""
    itl_p99_ms: Milliseconds | None = None
    """Time between tokens; for models that stream text."""


class TextGeneration(SpecPart):
    """How genai-perf drives a model that generates text."""

    tokenizer: Text | None = None
    """A folder in the pod's image or an s3:// prefix; null takes the one of the image."""
    endpoint_type: Literal["kserve", "generate"] = "kserve"
    backend: Literal["vllm", "tensorrtllm"] = "vllm"
    streaming: bool = True
    input_tokens_mean: Count = 64
    output_tokens_mean: Count = 16


_GENERATOR_IMAGES = {
    "perf_analyzer": "slipway/perf-analyzer:0.1.0",
    "genai_perf": "slipway/genai-perf:0.1.0",
}


class Benchmark(PodSettings):
    """The pod that measures candidate and stable side by side on staging."""

    generator: Literal["perf_analyzer", "genai_perf"] = "perf_analyzer"
    image: ImageReference = ""
    """Left out: slipway/perf-analyzer:0.1.0 or slipway/genai-perf:0.1.0, by the generator."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 2
    requests: Count = 200
    rounds: Annotated[int, Field(ge=1, le=100)] = 2
    """Candidate and stable take turns this many times; medians over the rounds are compared."""
    timeout_s: Seconds = 300
    """Limit for one measurement, all its rounds together."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """How often it is measured where it cannot be told, since the stable version misses the limits as well."""
    attempt_pause_s: Annotated[int, Field(ge=5, le=3600)] = 30
    """How long to wait before it is measured again."""
    slo: ServiceLevel = ServiceLevel()
    max_regression_percent: Annotated[float, Field(ge=0, le=1000)] = 25.0
    """How much worse than stable p99 latency and throughput may be."""
    regression_floor_ms: Annotated[float, Field(ge=0)] = 5.0
    """Latency differences below this are noise, whatever their percentage."""
    genai: TextGeneration | None = None

    @model_validator(mode="after")
    def _text_needs_its_generator(self) -> Self:
        if not self.image:
            self.__dict__["image"] = _GENERATOR_IMAGES[self.generator]
        text_slo = self.slo.ttft_p99_ms is not None or self.slo.itl_p99_ms is not None
        if self.generator == "genai_perf" and self.genai is None:
            raise ValueError("`generator: genai_perf` needs `genai:` (write `genai: {}` for its defaults)")
        if self.generator != "genai_perf" and (self.genai is not None or text_slo):
            raise ValueError("`genai:`, `ttft_p99_ms` and `itl_p99_ms` need `generator: genai_perf`")
        return self
