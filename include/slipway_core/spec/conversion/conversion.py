"""The release file's `conversion`: the pod that turns the source into what Triton serves, by target.

Each target is one class in one file of `slipway_core.spec.conversion.targets`: its options, its limits, its image, and
the arguments that they become for its converter, a program in `include/pod_scripts/`. To add one, copy such a file;
docs/development.md says the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from slipway_core.kind_registry import KindRegistry
from slipway_core.spec.chosen_part import ChosenPart
from slipway_core.spec.conversion.parity import ParityRules
from slipway_core.spec.parts import DnsLabel, ImageReference, merged, size_of
from slipway_core.spec.pods.settings import PodSettings

LONGEST_CONVERSION_S = 24 * 3600
"""The most that `conversion.timeout_s` may say; the DAG gives the task more than this."""
OPTIONAL = "optional"
"""The one key of a variant that is no key of the conversion."""
# What a tool may take of its pod's memory: the rest is the program's, and the pages of its files.
_TOOLS_SHARE = Fraction(7, 8)

# Makes an S3 address of the name of a file beside the source.
Uri = Callable[[str], str]


@dataclass(frozen=True)
class Places:
    """Where a conversion finds its source and golden set and leaves its result: S3 addresses.

    `uri` makes the address of another file in the source's folder. Only a converter that lays out a whole repository
    receives `model` and `version`. `golden_arguments` give the axis of the golden set's rows.
    """

    source: str
    golden: str
    destination: str
    model: str
    version: int
    uri: Uri
    golden_arguments: tuple[str, ...] = ()


def tool_memory_mib(quantity: str) -> int:
    """Return what a tool may take in a pod whose memory is a Kubernetes quantity, in MiB, at least 1.

    Less than the pod has: the tool is then refused memory and says so, instead of the pod being killed.
    """
    return max(1, int(size_of(quantity) * _TOOLS_SHARE / 2**20))


class Conversion(ChosenPart, PodSettings):
    """What the conversions to all targets share: a pod, and an image that is named after the target."""

    registry: ClassVar[KindRegistry[Any]] = KindRegistry(
        "conversion target",
        folder="slipway_core.spec.conversion.targets",
        base="slipway_core.spec.conversion.conversion:Conversion",
        name_attribute="target",
        group="slipway.conversion_targets",
    )
    chosen_by: ClassVar[str] = "target"
    default_choice: ClassVar[str] = "onnx"
    required: ClassVar[tuple[str, ...]] = ("program", "source_formats", "default_image")
    program: ClassVar[str]
    """The converter, in `include/pod_scripts/` or in your own image."""
    cuts_rows: ClassVar[bool] = True
    """Whether the converter takes rows out of the golden set, as `golden.row_axis` says."""
    made_of_onnx: ClassVar[str | None] = None
    """The one file that the converter makes of an ONNX model, which the command line holds against config.pbtxt."""
    widens_single_numbers: ClassVar[bool] = False
    """Whether a tensor of an ONNX model without any size is served with the size [1]."""
    needs_gpu: ClassVar[bool] = False
    """Whether what is made needs as many GPUs where it is served as `gpus` says, of the kind that made it."""
    memory_served: ClassVar[str] = "8Gi"
    """Of a server with a GPU: the CUDA context and TensorRT's libraries alone take more than the 2Gi of one on CPUs."""
    smoke_test_image: ClassVar[str | None] = None
    """The smoke test's, where what is made needs another back end than its own image has."""
    source_formats: ClassVar[tuple[str, ...]]
    """The formats that this target can be made of."""
    default_image: ClassVar[str]
    """The name of one in `include/images/`; or, of another package's target, an image with its tag."""
    lays_out_repository: ClassVar[bool] = False
    """Whether the converter leaves a whole model repository with its configurations, for which it receives model
    and version; otherwise it leaves one file, and `serving` describes how that is served.
    """
    compares: ClassVar[bool] = False
    """Whether the converter compares the answers with the source's and measures their time."""
    makes_engine: ClassVar[bool] = False
    """Whether it builds one engine, for one kind of GPU."""
    # A subclass narrows it to its own name.
    target: str
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_CONVERSION_S)] = 600
    """How long the converter may run: its tools end with it, and a hang isn't tried again."""
    image: ImageReference = ""
    """Default: that of the target's converter, in `include/images/`."""
    variants: dict[Annotated[DnsLabel, Field(max_length=16)], dict[str, JsonValue]] = Field(
        default_factory=dict
    )
    """Conversions to make in parallel: for each a name and the keys that differ from this section's.
    With `choose: all` also `optional: true`: the version may be released without this one.
    """
    choose: Literal["fastest", "all"] = "fastest"
    """Of the variants within their tolerance: the one whose requests take least in the converter's own
    measurement; or `all`, for engines, the fastest for each kind of GPU.
    """

    @model_validator(mode="after")
    def _name_the_image(self) -> Self:
        if not self.image:
            # Not in model_fields_set: it follows from the target and is not the user's word.
            image = self.default_image
            self.__dict__["image"] = image if ":" in image else f"slipway/{image}:0.1.0"
        return self

    @model_validator(mode="after")
    def _choosable(self) -> Self:
        if self.choose == "all" and not self.makes_engine:
            raise ValueError("`choose: all` is for `target: tensorrt`, whose engines are each for one GPU")
        if self.choose == "all" and not self.variants:
            raise ValueError("`choose: all` needs `variants`, one or more for each kind of GPU")
        if self.variants and not self.compares:
            raise ValueError(
                f"`variants` is not for `target: {self.target}`: nothing is measured to choose by"
            )
        for name, changed in self.variants.items():
            if not isinstance(changed.get(OPTIONAL, False), bool):
                raise ValueError(f"`variants.{name}.{OPTIONAL}` must be true or false")
            if OPTIONAL in changed and self.choose != "all":
                raise ValueError(
                    f"`variants.{name}.{OPTIONAL}` is for `choose: all`: of others only one is needed"
                )
        return self

    @property
    def gpus(self) -> int:
        """Return on how many GPUs what is made is served."""
        return 0

    def is_optional(self, variant: str) -> bool:
        """Return whether the version may be released without this one of its variants."""
        return self.variants[variant].get(OPTIONAL) is True

    @property
    def tools_memory_mib(self) -> int:
        """Return what a tool of the converter may take of the pod's memory."""
        return tool_memory_mib(self.resources.memory)

    def command(self, places: Places) -> list[str]:
        """Return the program and all its arguments."""
        source = ["--source", places.source] if self.has_source else []
        identity = (
            ["--model", places.model, "--version", str(places.version)] if self.lays_out_repository else []
        )
        return [
            self.program,
            *source,
            *("--golden", places.golden, "--destination", places.destination),
            *identity,
            *(places.golden_arguments if self.cuts_rows else ()),
            *self.converter_arguments(places.uri),
            *("--timeout-s", str(self.timeout_s)),
        ]

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return this target's options and limits as arguments of its program.

        :param uri: makes an S3 address of the name of a file beside the source.
        """
        raise NotImplementedError

    def files(self) -> tuple[str, ...]:
        """Return the files beside the source that this conversion reads."""
        return ()

    @property
    def has_source(self) -> bool:
        """Return whether the converter reads what training left, and not a model from elsewhere."""
        return True

    @property
    def scales_each_request(self) -> bool:
        """Return whether numbers are rounded by the request that they come in: a row's answer depends on its batch."""
        return False


conversion_target = Conversion.registry.register
"""Adds a target: the decorator of its class."""


def variant_of(conversion: Conversion, name: str) -> Conversion:
    """Return the conversion of one of its variants.

    :raises pydantic.ValidationError: where its keys make none.
    """
    written = conversion.model_dump(mode="json", exclude_unset=True, exclude={"variants", "choose"})
    changed = {key: value for key, value in conversion.variants[name].items() if key != OPTIONAL}
    return Conversion.read(merged(written, changed))


class MeasuredSettings(Conversion):
    """What the conversions to ONNX share: tolerances, and a limit on each tool's memory."""

    compares: ClassVar[bool] = True
    parity: ParityRules = ParityRules()

    @model_validator(mode="after")
    def _parity_of_its_precision(self) -> Self:
        if getattr(self, "precision", None) == "fp16":
            self.__dict__["parity"] = self.parity.of_half_precision()
        return self

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return the target's options, the tolerances and the limit on memory."""
        memory = ["--memory-mib", str(self.tools_memory_mib)]
        return [*self.target_arguments(uri), *self.parity.arguments(), *memory]

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return the options that only this target has."""
        raise NotImplementedError
