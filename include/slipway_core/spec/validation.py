"""The release file's `validation`: what the golden set must show on staging, by the kind of the model's answers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from slipway_core.kind_registry import KindRegistry
from slipway_core.spec.chosen_part import ChosenPart
from slipway_core.spec.parts import (
    Count,
    FileName,
    Seconds,
    Share,
    SpecPart,
    Text,
)
from slipway_core.spec.suites.expectations import SUITE_LIMIT, Expectation

NotNegative = Annotated[float, Field(ge=0)]
Policy = Literal["fail", "warn", "off"]

# A whole float is rounded to one of 256 steps, in layer after layer: probabilities then move by hundredths.
_SCALED_BY_REQUEST = 0.05


class OutputHealth(SpecPart):
    """Checks of every answer, whatever its kind: `fail` refuses the version, `warn` is only reported, `off` skips it.

    Text has no numbers: of texts only `constant` is asked.
    """

    finite: Policy = "fail"
    """No NaN and no infinity."""
    constant: Policy = "fail"
    """Different inputs don't all get the same answer; checked if there are 8 rows or more."""
    saturation: Policy = "warn"
    """Fewer than 99 % of the numbers are at a limit: the largest of float16, or a probability of exactly 0 or 1."""
    probability_sums: Policy = "fail"
    """Scores that lie between 0 and 1 and sum to 1 do so in every row; checked if most rows, or stable's, do."""
    empty: Policy = "fail"
    """No answer has a size of 0."""
    deterministic: Policy = "fail"
    """The same request gets the same answer twice, within the tolerances."""
    batch_invariant: Policy = "fail"
    """A row is answered alone as in a batch, within the tolerances; checked if a request can have several rows."""
    probe_rows: Annotated[int, Field(ge=1, le=64)] = 8
    """How many golden rows are sent again for the last two."""
    abs_tolerance: NotNegative = 1e-3
    rel_tolerance: NotNegative = 1e-2
    batch_abs_tolerance: NotNegative | None = None
    """Instead of `abs_tolerance` for `batch_invariant`. Left out, as that one; 0.05 where `conversion` makes int8 of
    the model and scales each request again, for then a row's answer depends on its neighbours.
    """

    def of_scaled_requests(self) -> Self:
        """Return it for a model whose rows are rounded by the request that they come in."""
        said = self.batch_abs_tolerance is not None
        return self if said else self.filled(batch_abs_tolerance=_SCALED_BY_REQUEST)


class OtherOutputs(SpecPart):
    """What is asked of the outputs that are not scored: they are compared with stable's answers to the golden rows.

    A relation that stable's outputs have to each other, such as a class that is the one with the highest score, must
    still hold; so must what an output has to do with the golden labels, and the form of its numbers. Else it must have
    to do with stable's from row to row, at nearly the same size.
    """

    policy: Policy = "fail"
    """Policy for an output that has clearly changed; `off`: none is checked."""
    ignore: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Outputs that are not checked. Page, approval and record name them."""
    agreement_min: Share | None = None
    """Share of the rows with stable's class or text, below which it is reported; default: `agreement_min` above."""


class Validation(ChosenPart):
    """What every kind has; the kinds lie in `slipway_core.gates.validation.kinds`.

    The label's array has one value for each row of the golden set.
    """

    registry: ClassVar[KindRegistry[Any]] = KindRegistry(
        "validation kind",
        folder="slipway_core.gates.validation.kinds",
        base="slipway_core.gates.validation.kind:ValidationKind",
        name_attribute="kind",
        group="slipway.validation_kinds",
    )
    chosen_by: ClassVar[str] = "kind"
    default_choice: ClassVar[str] = "classification"
    tells_classes: ClassVar[bool] = False
    """Whether the answers are scores by class, or classes: one for each row."""

    label: Text = "label"
    """The array of the golden set with the right answers."""
    agreement_min: Share = 0.9
    """Share of golden rows that must be answered as the stable version answers them; 0: any."""
    batch_size: Count = 32
    """Golden rows per request; left out, no more than `serving.max_batch_size`. A decoupled model gets one."""
    timeout_s: Seconds = 60
    """Limit for a request; of a decoupled model, until its last response."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Of each figure's interval. If a limit is inside the interval, the rows are too few to decide: `inconclusive`."""
    on_inconclusive: Literal["warn", "refuse"] = "warn"
    """What follows then. `warn`: the figure itself decides, and report and page say that it is uncertain. `refuse`: the
    stage ends as `inconclusive`, and the release with it.
    """
    health: OutputHealth = OutputHealth()
    other_outputs: OtherOutputs = OtherOutputs()
    slice_accuracy_min: Share | None = None
    """Share of the rows of each slice (`golden.slices`) that must be answered right; a slice that is clearly below it
    fails the version. If omitted, the figure is only reported.
    """
    slice_agreement_min: Share | None = None
    """The same of the rows that must be answered as by the stable version."""
    expectations: Annotated[tuple[Expectation, ...], Field(max_length=SUITE_LIMIT)] = ()
    """Expectations on the table of answers, as great-expectations writes them: one row for each golden row."""
    suite: FileName | None = None
    """A file in the release file's folder with more of them: a suite in great-expectations' JSON form."""

    # A subclass narrows it to its own name.
    kind: str
    output: Text
    """The output that is scored."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the outputs that are asked for."""
        return (self.output,)

    @property
    def grouped_by(self) -> str | None:
        """Return the array of the golden set that says which rows belong together; None: each stands for itself."""
        return None
