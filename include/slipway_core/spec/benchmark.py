"""The release file's `benchmark`: how fast a version must answer on staging."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.load import LoadLevel
from slipway_core.spec.parts import (
    Count,
    ImageReference,
    Milliseconds,
    Percent,
    Seconds,
    SpecPart,
    Text,
)
from slipway_core.spec.pods.settings import PodSettings
from slipway_core.spec.schedules.cron import Cron

Percentile = Literal[50, 90, 95, 99]
ComparedFigure = Literal["p10", "p50", "p90", "p95", "p99", "throughput"]
_Concurrency = Annotated[int, Field(ge=1, le=4096)]
_RequestRate = Annotated[float, Field(gt=0, le=1_000_000)]
_PERCENTILES: tuple[Percentile, ...] = (50, 90, 95, 99)


class ServiceLevel(SpecPart):
    """What the candidate must reach by itself, at the first level of load."""

    p50_ms: Milliseconds | None = None
    p90_ms: Milliseconds | None = None
    p95_ms: Milliseconds | None = None
    p99_ms: Milliseconds = 100.0
    throughput_min_rps: Annotated[float, Field(ge=0)] = 0.0
    error_percent_max: Percent = 0.0
    ttft_p50_ms: Milliseconds | None = None
    """Time to first token; for models that stream text."""
    ttft_p90_ms: Milliseconds | None = None
    ttft_p95_ms: Milliseconds | None = None
    ttft_p99_ms: Milliseconds | None = None
    itl_p50_ms: Milliseconds | None = None
    """Time between tokens; for models that stream text."""
    itl_p90_ms: Milliseconds | None = None
    itl_p95_ms: Milliseconds | None = None
    itl_p99_ms: Milliseconds | None = None
    output_tokens_min_per_s: Annotated[float, Field(ge=0)] = 0.0
    """Tokens answered in a second, all requests together; for models that generate text."""

    def latency_limits_ms(self, prefix: Literal["", "ttft_", "itl_"]) -> dict[Percentile, float]:
        """Return the limit of each percentile that has one: of the latency, or of `ttft_`, `itl_`."""
        limits = {percent: getattr(self, f"{prefix}p{percent}_ms") for percent in _PERCENTILES}
        return {percent: limit for percent, limit in limits.items() if limit is not None}

    @property
    def asks_for_text(self) -> bool:
        """Return whether a limit is there that only a model that generates text can meet."""
        streamed = self.latency_limits_ms("ttft_") or self.latency_limits_ms("itl_")
        return bool(streamed or self.output_tokens_min_per_s)


class TextGeneration(SpecPart):
    """How genai-perf drives a model that generates text."""

    tokenizer: Text | None = None
    """A folder in the pod's image or an s3:// prefix; null takes the one of the image."""
    endpoint_type: Literal["kserve", "generate"] = "kserve"
    backend: Literal["vllm", "tensorrtllm"] = "vllm"
    streaming: bool = True
    input_tokens_mean: Count = 64
    input_tokens_stddev: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    output_tokens_mean: Count = 16
    output_tokens_stddev: Annotated[int, Field(ge=0, le=1_000_000)] = 0


_GENERATOR_IMAGES = {
    "perf_analyzer": "slipway/perf-analyzer:0.1.0",
    "genai_perf": "slipway/genai-perf:0.1.0",
}


class Benchmark(PodSettings):
    """The pod that measures candidate and stable side by side on staging."""

    generator: Literal["perf_analyzer", "genai_perf"] = "perf_analyzer"
    image: ImageReference = ""
    """Default: slipway/perf-analyzer:0.1.0 or slipway/genai-perf:0.1.0, by the generator."""
    concurrency: _Concurrency | Annotated[tuple[_Concurrency, ...], Field(min_length=1, max_length=32)] = 2
    """Requests in flight. A list is a sweep: the limits hold at its first entry, the others are measured once, for the
    curve.
    """
    request_rate: (
        _RequestRate | Annotated[tuple[_RequestRate, ...], Field(min_length=1, max_length=32)] | None
    ) = None
    """Requests a second, sent by a schedule, instead of `concurrency`; a list as there."""
    requests: Count = 200
    """Measured requests in a round."""
    rounds: Annotated[int, Field(ge=1, le=100)] = 5
    """Candidate and stable take turns this many times; each round is a pair that is compared."""
    max_rounds: Annotated[int, Field(ge=1, le=1000)] = 20
    """Where the pairs do not decide, more are measured, doubling up to so many; not fewer than `rounds`."""
    timeout_s: Seconds = 300
    """Limit for one pod with all its rounds."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """How often it is measured again if the result is inconclusive."""
    attempt_pause_s: Annotated[int, Field(ge=5, le=3600)] = 30
    """How long to wait before it is measured again."""
    slo: ServiceLevel = ServiceLevel()
    max_regression_percent: Annotated[float, Field(ge=0, le=1000)] = 25.0
    """How much worse latency and throughput may be than stable's."""
    regression_floor_ms: Annotated[float, Field(ge=0)] = 5.0
    """Latency differences below this are noise, whatever their percentage."""
    compared: Annotated[tuple[ComparedFigure, ...], Field(min_length=1)] = ("p10", "p50", "p99", "throughput")
    """What is compared with stable: percentiles of the latency, and for text of TTFT and ITL, and the throughput."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Of the interval that decides, over all looks at the rounds together."""
    on_inconclusive: Literal["warn", "refuse"] = "warn"
    """Where `max_rounds` do not decide: `warn` passes a figure that is itself within the margin, and says so; `refuse`
    passes none.
    """
    genai: TextGeneration | None = None
    schedule: Cron | None = None
    """When `model_benchmark` measures the live version again, in five fields of cron, UTC, such as `0 3 * * 0`; left
    out: only in a release, and when somebody starts it."""

    @model_validator(mode="after")
    def _text_needs_its_generator(self) -> Self:
        if not self.image:
            self.__dict__["image"] = _GENERATOR_IMAGES[self.generator]
        if self.generator == "genai_perf" and self.genai is None:
            raise ValueError("`generator: genai_perf` needs `genai:` (write `genai: {}` for its defaults)")
        if self.generator != "genai_perf" and (self.genai is not None or self.slo.asks_for_text):
            raise ValueError(
                "`genai:` and limits on tokens (`ttft_…`, `itl_…`, `output_tokens_…`) need `generator: genai_perf`"
            )
        if self.request_rate is not None and "concurrency" in self.model_fields_set:
            raise ValueError("`concurrency` and `request_rate` exclude each other")
        return self

    @property
    def loads(self) -> tuple[LoadLevel, ...]:
        """Return the levels of load, the one first that the limits hold at."""
        if self.request_rate is not None:
            rates = self.request_rate if isinstance(self.request_rate, tuple) else (self.request_rate,)
            return tuple(LoadLevel(request_rate_rps=rate) for rate in dict.fromkeys(rates))
        chosen = self.concurrency if isinstance(self.concurrency, tuple) else (self.concurrency,)
        return tuple(LoadLevel(concurrency=number) for number in dict.fromkeys(chosen))

    @property
    def most_rounds(self) -> int:
        """Return up to how many rounds are measured in one attempt."""
        return max(self.rounds, self.max_rounds)

    def rounds_after(self, measured: int) -> int:
        """Return how many more rounds are measured where `measured` do not decide: as many again, up to the limit."""
        return max(0, min(measured, self.most_rounds - measured))

    @property
    def looks(self) -> tuple[int, ...]:
        """Return after how many rounds it is looked at whether they decide."""
        looks = [self.rounds]
        while more := self.rounds_after(looks[-1]):
            looks.append(looks[-1] + more)
        return tuple(looks)
