"""The smoke test's report, as its pod writes it; read as a document that anybody may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from slipway_core.gates.pod_report import parse_report

_Number = Annotated[int, Field(ge=0, lt=2**63)]
_Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_Ms = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Text = Annotated[str, Field(max_length=2000)]
_Name = Annotated[str, Field(max_length=500)]
_Lines = Annotated[tuple[_Text, ...], Field(max_length=50)]
_Sample = tuple[_Number, Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Load(_Part):
    """One load on a new server; `first_request_ms` is None if no request was sent or none was answered."""

    status: Literal["loaded", "refused", "crashed", "timed out"]
    seconds: _Seconds
    reason: _Text = ""
    log: _Lines = ()
    first_request_ms: _Ms | None = None


class Broken(_Part):
    """A golden row that got no answer; `died` says how the server ended, where it did.

    :ivar silent: no word came in time, rather than an error.
    """

    message: _Text
    silent: bool = False
    died: _Text = ""
    log: _Lines = ()


class Steady(_Part):
    """One golden row, asked again and again by one client; `silent` of the requests got no word in time."""

    requests: _Number
    answered: _Number
    silent: _Number = 0
    p50_ms: _Ms | None
    p90_ms: _Ms | None
    differ: _Number

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.answered + self.silent > self.requests:
            message = f"{self.answered} of {self.requests} requests were answered, {self.silent} were not"
            raise ValueError(message)
        return self


class Instances(_Part):
    """One golden row, asked until every instance had answered it, as the server's log tells.

    :ivar silent: requests of which no word came within `limit_s`: nothing was compared of them.
    """

    expected: Annotated[dict[_Name, _Number], Field(max_length=1000)]
    seen: Annotated[dict[_Name, dict[_Name, _Number]], Field(max_length=1000)]
    requests: _Number
    silent: _Number = 0
    limit_s: _Seconds = 0.0
    differ: _Number
    differences: _Lines = ()
    seconds: _Seconds = 0.0

    @property
    def is_alone(self) -> bool:
        """Return whether no model has a second instance."""
        return all(number < 2 for number in self.expected.values())

    @property
    def unseen(self) -> int:
        """Return how many instances have answered nothing."""
        return sum(max(0, number - len(self.seen.get(name, ()))) for name, number in self.expected.items())


class Memory(_Part):
    """Golden requests, and the memory of the server and of what it started on the way: (requests, MiB).

    :ivar silent: requests of which no word came within `limit_s`; `failed` are others.
    """

    wanted: _Number
    requests: _Number
    failed: _Number
    silent: _Number = 0
    limit_s: _Seconds = 0.0
    samples: Annotated[tuple[_Sample, ...], Field(max_length=1000)]
    ended: _Text = ""
    seconds: _Seconds = 0.0


class Probe(_Part):
    """One boundary input.

    :ivar died: how the server ended.
    :ivar golden: in what the golden row's answer differs after it.
    :ivar stuck: what came of the golden row after it, where the server lived and no answer came in time.
    """

    name: _Name
    via: Literal["grpc", "http"]
    outcome: Literal["answered", "refused", "silent", "timed out"]
    message: _Text = ""
    ms: _Ms
    died: _Text = ""
    golden: _Text = ""
    stuck: _Text = ""
    log: _Lines = ()

    @property
    def unheard(self) -> str:
        """Return what got no answer in time, in words; that is no wrong answer. Empty where all was answered."""
        if self.stuck:
            return f"the golden row got no answer after it: {self.stuck}"
        return f"no answer in time: {self.message}" if self.outcome == "timed out" else ""

    @property
    def harmed(self) -> str:
        """Return what was wrong after it, in words; empty if nothing was."""
        if self.died:
            return self.died
        if self.outcome == "silent":
            return f"neither an answer nor an error: {self.message}"
        return f"the golden row was answered otherwise after it: {self.golden}" if self.golden else ""


class Robustness(_Part):
    """All boundary inputs; `left_out` were not asked, for that `reason`."""

    probes: Annotated[tuple[Probe, ...], Field(max_length=1000)]
    left_out: _Number
    reason: _Text = ""
    seconds: _Seconds = 0.0


class Gpu(_Part):
    """Memory in use on the pod's GPUs, before the load and after the requests."""

    before_bytes: _Number
    after_bytes: _Number


class Server(_Part):
    """What the server tells of itself."""

    name: _Name
    version: _Name


class SmokeTestReport(_Part):
    """What happened; a part is None if it did not come to it."""

    loads: Annotated[tuple[Load, ...], Field(max_length=1000)]
    server: Server | None = None
    not_asked: _Text = ""
    broken: Broken | None = None
    steady: Steady | None = None
    instances: Instances | None = None
    memory: Memory | None = None
    robustness: Robustness | None = None
    gpu: Gpu | None = None
    seconds: _Seconds = 0.0

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str | bytes) -> SmokeTestReport:
        """Return the report in the pod's result.json.

        :raises SlipwayError: it is not such a report. The fault is the pod's.
        """
        expected = "`loads` and what came after them, as smoke_test.py writes them"
        return parse_report(cls, value, pod="smoke test", expected=expected)
