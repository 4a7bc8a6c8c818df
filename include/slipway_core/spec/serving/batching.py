"""The release file's `dynamic_batching` and `sequence_batching`: how requests become batches.

`null` stands where the option of a config.pbtxt that training left is to be removed.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.parts import Count, SpecPart, Text
from slipway_core.tensors import Datatype

Microseconds = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
ControlKind = Literal["start", "end", "ready", "correlation_id"]
_FLAG_TYPES = ("INT32", "FP32", "BOOL")
_ID_TYPES = ("UINT64", "INT64", "UINT32", "INT32", "BYTES")
_OF_OLDEST = {"max_candidate_sequences", "preferred_batch_sizes", "preserve_ordering"}
_OF_DIRECT = {"minimum_slot_utilization"}


class QueuePolicy(SpecPart):
    """What happens to requests that wait.

    Not without need: Triton 2.51 was measured to hold up a few requests in a thousand for half a second at
    low load when a policy is set.
    """

    timeout_action: Literal["reject", "delay"] | None = "reject"
    default_timeout_us: Microseconds | None = 0
    """0: no limit."""
    allow_timeout_override: bool | None = False
    """A request can set a shorter limit."""
    max_queue_size: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = 0
    """0: no limit."""


class DynamicBatching(SpecPart):
    """Triton gathers single requests into batches for at most this long."""

    max_queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] | None = 1000
    preferred_batch_sizes: tuple[Count, ...] | None = ()
    preserve_ordering: bool | None = False
    """Answer in the order in which requests came."""
    priority_levels: Annotated[int, Field(ge=0, le=1000)] | None = 0
    """0: all requests are equal; otherwise 1 is the most urgent level."""
    default_priority_level: Annotated[int, Field(ge=0, le=1000)] | None = 0
    """The level of a request that names none."""
    queue_policy: QueuePolicy | None = None
    priority_queue_policies: dict[Annotated[str, Field(pattern=r"^[1-9]\d*$")], QueuePolicy | None] | None = (
        Field(default_factory=dict)
    )
    """Policies of single priority levels, by their number."""

    @model_validator(mode="after")
    def _levels_fit(self) -> Self:
        levels, default = self.priority_levels or 0, self.default_priority_level or 0
        if bool(levels) != bool(default):
            raise ValueError("`priority_levels` and `default_priority_level` go together")
        if default > levels:
            raise ValueError(f"`default_priority_level: {default}` is above `priority_levels: {levels}`")
        policies = self.priority_queue_policies or {}
        beyond = [level for level, policy in policies.items() if policy is not None and int(level) > levels]
        if beyond:
            raise ValueError(
                f"`priority_queue_policies` names level {beyond[0]}, but `priority_levels` is {levels}"
            )
        return self


class SequenceControl(SpecPart):
    """An input by which Triton tells the model where in a sequence it is; clients do not send it."""

    input: Text
    kind: ControlKind
    datatype: Datatype = "INT32"
    """`start`, `end` and `ready` are 0 or 1 of INT32, FP32 or BOOL; a correlation id is a whole number or BYTES."""

    @model_validator(mode="after")
    def _type_fits(self) -> Self:
        allowed = _ID_TYPES if self.kind == "correlation_id" else _FLAG_TYPES
        if self.datatype not in allowed:
            raise ValueError(f"`datatype` of a control of kind {self.kind} is one of {', '.join(allowed)}")
        return self


class SequenceState(SpecPart):
    """A state that Triton keeps for the model: an output of one request is an input of the next."""

    input: Text
    output: Text
    datatype: Datatype
    dims: Annotated[tuple[Annotated[int, Field(ge=-1)], ...], Field(min_length=1)]
    """Without the batch."""
    zero_start: bool = True
    """The first request of a sequence finds zeros, not old memory. Needs fixed `dims`."""

    @model_validator(mode="after")
    def _zeros_have_a_size(self) -> Self:
        if self.zero_start and -1 in self.dims:
            raise ValueError("`zero_start` needs fixed `dims`; write `zero_start: false` for a varying size")
        return self


class SequenceBatching(SpecPart):
    """Requests of one sequence go to one instance, in turn."""

    strategy: Literal["direct", "oldest"] | None = None
    """`direct`: each sequence keeps a place in the batch; `oldest`: the oldest requests make up the batch. Left
    out: that of the config.pbtxt that training left, else `direct`.
    """
    max_sequence_idle_us: Microseconds | None = 1_000_000
    """A sequence that is idle for so long is dropped."""
    max_queue_delay_us: Microseconds | None = 0
    minimum_slot_utilization: Annotated[float, Field(ge=0, le=1)] | None = 0.0
    """With `direct`: the share of places that must be filled before `max_queue_delay_us` is cut short."""
    max_candidate_sequences: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = 0
    """With `oldest`: how many sequences may be under way in an instance; must be given."""
    preferred_batch_sizes: tuple[Count, ...] | None = ()
    """With `oldest`."""
    preserve_ordering: bool | None = False
    """With `oldest`."""
    controls: tuple[SequenceControl, ...] | None = ()
    states: tuple[SequenceState, ...] | None = ()
    iterative: bool | None = False
    """The model may put a request back into the queue until it is done."""

    @model_validator(mode="after")
    def _fits_the_strategy(self) -> Self:
        foreign = [] if self.strategy is None else self.foreign_to(self.strategy)
        if foreign:
            raise ValueError(f"`{foreign[0]}` does not go with `strategy: {self.strategy}`")
        if self.strategy == "oldest" and not self.max_candidate_sequences:
            raise ValueError("`strategy: oldest` needs `max_candidate_sequences`")
        kinds = [control.kind for control in self.controls or ()]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"two `controls` are of the same kind: {kinds}")
        return self

    def foreign_to(self, strategy: Literal["direct", "oldest"]) -> list[str]:
        """Return the options that were given and belong to the other strategy."""
        return sorted((_OF_OLDEST if strategy == "direct" else _OF_DIRECT) & self.model_fields_set)
