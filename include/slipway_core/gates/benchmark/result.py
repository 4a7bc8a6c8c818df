"""What a benchmark has measured: one form, whatever tool made the load.

The pods `benchmark_*.py` write it as `result.json`. A round is one measurement of one version at one level of load;
the rounds of candidate and stable with the same number were measured one after the other, and are a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from slipway_core.gates.pod_report import parse_report
from slipway_core.spec.load import LoadLevel

Role = Literal["candidate", "stable"]
_NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# The largest value of a 64-bit counter.
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class Quantiles(BaseModel):
    """A latency's average and quantiles, in milliseconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    avg_ms: _NonNegative
    p10_ms: _NonNegative | None = None
    """Not in results of former versions."""
    p50_ms: _NonNegative
    p90_ms: _NonNegative
    p95_ms: _NonNegative
    p99_ms: _NonNegative


class Measurement(Quantiles):
    """One round of load on one version.

    Throughput counts answers without error; latencies are those of such answers. The load is `concurrency`, so many
    requests in flight, or `request_rate_rps`, requests sent by a schedule.
    """

    role: Literal["candidate", "baseline", "stable"]
    round: Annotated[int, Field(ge=0)]
    concurrency: Annotated[int, Field(ge=1)] | None = None
    request_rate_rps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    requests: _Count
    errors: _Count
    throughput_rps: _NonNegative
    ttft_ms: Quantiles | None = None
    """Time to first token, for streamed text."""
    itl_ms: Quantiles | None = None
    """Time between tokens, for streamed text."""
    output_tokens_per_s: _NonNegative | None = None
    """For text, where the tool counts tokens."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.errors > self.requests:
            raise ValueError(f"{self.errors} errors in {self.requests} requests")
        if (self.concurrency is None) == (self.request_rate_rps is None):
            raise ValueError("a round has either a concurrency or a request rate")
        return self

    @property
    def load(self) -> LoadLevel:
        """Return the level of load that it was measured at."""
        return LoadLevel(self.concurrency, self.request_rate_rps)

    @property
    def answered(self) -> bool:
        """Return whether at least one request was answered without an error."""
        return self.requests > self.errors


class BenchmarkResult(BaseModel):
    """All rounds of one benchmark."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    measurements: Annotated[tuple[Measurement, ...], Field(min_length=1)]
    generator: str = ""
    """The tool that made the load; empty in results of former versions."""
    tools: dict[str, str] = {}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str | bytes) -> BenchmarkResult:
        """Return the report in the benchmark pod's result.json.

        :raises SlipwayError: it is not such a report. The fault is the pod's.
        """
        expected = "`measurements`, each with role, round, load, requests, errors, throughput and latencies"
        return parse_report(cls, value, pod="benchmark", expected=expected)

    @classmethod
    def together(cls, parts: Sequence[BenchmarkResult]) -> BenchmarkResult:
        """Return what several pods have measured of the same two versions, one after the other, as one result."""
        measured = tuple(one for part in parts for one in part.measurements)
        return parts[0].model_copy(update={"measurements": measured})

    @property
    def loads(self) -> tuple[LoadLevel, ...]:
        """Return the levels of load in the order in which they were first measured."""
        return tuple(dict.fromkeys(one.load for one in self.measurements))

    def of(self, role: Role, load: LoadLevel | None = None) -> list[Measurement]:
        """Return the rounds of one side, at one level of load or at all; pods call the stable version `baseline`."""
        names = ("candidate",) if role == "candidate" else ("baseline", "stable")
        return [one for one in self.measurements if one.role in names and load in (None, one.load)]

    def pairs(self, load: LoadLevel) -> list[tuple[Measurement, Measurement]]:
        """Return candidate and stable of each round that both have answered, in the order of the rounds."""
        stable = {one.round: one for one in self.of("stable", load) if one.answered}
        mine = {one.round: one for one in self.of("candidate", load) if one.answered}
        return [(mine[number], stable[number]) for number in sorted(mine.keys() & stable.keys())]
