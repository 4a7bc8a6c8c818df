"""The release file's `conversion`: what is made of the source.

Each target of a conversion is a class of its own with the options that it has, and says which arguments its
converter is given. A new target is a new class here, or in a file of its own, and a line in `Conversion`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag, TypeAdapter, model_validator

from include.model_release.spec.conversion.targets import (
    LightgbmOptions,
    OnnxOptions,
    ParityRules,
    PytorchOptions,
    SklearnOptions,
    Uri,
    XgboostOptions,
    tool_memory_mib,
)
from include.model_release.spec.conversion.tensorrt import Mebibytes, TensorRtLlmOptions, TensorRtOptions
from include.model_release.spec.parts import (
    DnsLabel,
    ImageReference,
    PodSettings,
    Quantity,
    Resources,
    StartupSeconds,
    merged,
    size_of,
)

LONGEST_CONVERSION_S = 24 * 3600
"""The most that `conversion.timeout_s` may say; the DAG gives the task more than this."""
OPTIONAL = "optional"
"""The one key of a variant that is no key of the conversion."""


class TargetSettings(PodSettings):
    """What the conversions to all targets share: a pod, and an image that is named after the target."""

    program: ClassVar[str]
    """The converter, in `include/pod_scripts/`."""
    source_formats: ClassVar[tuple[str, ...]]
    """The formats that this target can be made of."""
    default_image: ClassVar[str]
    lays_out_repository: ClassVar[bool] = False
    """Whether the converter leaves a whole model repository with its configurations, for which it is told model
    and version; otherwise it leaves one file, and `serving` describes how that is served.
    """
    compares: ClassVar[bool] = False
    """Whether the converter holds the answers against the source's and measures the time they take."""
    makes_engine: ClassVar[bool] = False
    """Whether it makes one engine, for one kind of GPU."""
    # A subclass narrows it to its own name.
    target: str
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_CONVERSION_S)] = 600
    """How long the converter may work: its tools end with it, and a hang is not tried again."""
    image: ImageReference = ""
    """Left out: that of the target's converter, in `include/images/`."""
    variants: dict[Annotated[DnsLabel, Field(max_length=16)], dict[str, JsonValue]] = Field(
        default_factory=dict
    )
    """Conversions to make beside each other: for each a name and the keys that differ from this section's.
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
            self.__dict__["image"] = f"slipway/{self.default_image}:0.1.0"
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

    def is_optional(self, variant: str) -> bool:
        """Whether the version may be released without this one of its variants."""
        return self.variants[variant].get(OPTIONAL) is True

    @property
    def tools_memory_mib(self) -> int:
        """What a tool of the converter may take of the pod's memory."""
        return tool_memory_mib(self.resources.memory)

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return this target's own options as arguments of its program; `uri` makes an S3 address of a file's name."""
        raise NotImplementedError

    def files(self) -> tuple[str, ...]:
        """Return the files beside the source that this conversion reads."""
        return ()

    @property
    def has_source(self) -> bool:
        """Whether the converter reads what training left, and not a model from elsewhere."""
        return True


class MeasuredSettings(TargetSettings):
    """What the conversions to ONNX share: tolerances, and a limit on each tool's memory."""

    compares: ClassVar[bool] = True
    parity: ParityRules = ParityRules()

    def _measured(self, target_arguments: list[str]) -> list[str]:
        return [*target_arguments, *self.parity.arguments(), "--memory-mib", str(self.tools_memory_mib)]


class OnnxConversion(OnnxOptions, MeasuredSettings):
    """ONNX: checked, simplified, optimised, in the precision that is asked for."""

    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    default_image: ClassVar[str] = "onnx"
    target: Literal["onnx"] = "onnx"

    def converter_arguments(self, uri: Uri) -> list[str]:
        """The precision, how it is reached, and the tolerances."""
        return self._measured(self.target_arguments(uri))

    def files(self) -> tuple[str, ...]:
        """The calibration rows of static int8."""
        return self.precision_files()


class SklearnConversion(SklearnOptions, MeasuredSettings):
    """A scikit-learn estimator or pipeline, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("sklearn",)
    default_image: ClassVar[str] = "sklearn"
    target: Literal["sklearn"] = "sklearn"

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Whether the source is trusted, and the tolerances."""
        return self._measured(self.target_arguments(uri))


class XgboostConversion(XgboostOptions, MeasuredSettings):
    """An XGBoost model, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("xgboost",)
    default_image: ClassVar[str] = "sklearn"
    target: Literal["xgboost"] = "xgboost"

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Whether the source is trusted, and the tolerances."""
        return self._measured(self.target_arguments(uri))


class LightgbmConversion(LightgbmOptions, MeasuredSettings):
    """A LightGBM model, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("lightgbm",)
    default_image: ClassVar[str] = "sklearn"
    target: Literal["lightgbm"] = "lightgbm"

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Whether the source is trusted, and the tolerances."""
        return self._measured(self.target_arguments(uri))


class PytorchConversion(PytorchOptions, MeasuredSettings):
    """A PyTorch model, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("pytorch",)
    default_image: ClassVar[str] = "pytorch"
    target: Literal["pytorch"] = "pytorch"

    def converter_arguments(self, uri: Uri) -> list[str]:
        """How it is read, the precision, and the tolerances."""
        return self._measured(self.target_arguments(uri))

    def files(self) -> tuple[str, ...]:
        """The module's file, and the calibration rows of static int8."""
        module = () if self.module_file is None else (self.module_file,)
        return (*module, *self.precision_files())


class PythonConversion(TargetSettings):
    """A model of Triton's Python backend: checked and passed through as it is."""

    source_formats: ClassVar[tuple[str, ...]] = ("python",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_python.py"
    default_image: ClassVar[str] = "python"
    target: Literal["python"] = "python"
    max_size_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """All files together."""
    try_import: bool = False
    """Import `model.py` in the pod, which runs its module-level code; the image must hold what it imports.
    Otherwise none of it is run before staging.
    """

    def converter_arguments(self, uri: Uri) -> list[str]:
        """The size limit, and whether the program may be imported."""
        return [
            "--max-size-mib",
            str(self.max_size_mib),
            *(["--try-import"] if self.try_import else []),
        ]


class EnsembleConversion(TargetSettings):
    """An ensemble and its members: checked as one unit and passed through."""

    source_formats: ClassVar[tuple[str, ...]] = ("repository",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_ensemble.py"
    default_image: ClassVar[str] = "ensemble"
    target: Literal["ensemble"] = "ensemble"
    max_size_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    """All files of all members together."""

    def converter_arguments(self, uri: Uri) -> list[str]:
        """The size limit."""
        return ["--max-size-mib", str(self.max_size_mib)]


class EngineResources(Resources):
    """What a pod that builds engines asks of its node."""

    cpu: Quantity = "4"
    memory: Quantity = "16Gi"
    gpu: Annotated[int, Field(ge=0, le=64)] = 0
    """Left out: as many as the build needs."""


class LanguageModelResources(EngineResources):
    """The same for a language model, whose weights are read whole."""

    cpu: Quantity = "8"
    memory: Quantity = "96Gi"


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
        """How many GPUs the build needs."""
        return 1

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        asked, memory = self.resources, self.resources.memory
        if "gpu" not in asked.model_fields_set:
            self.__dict__["resources"] = asked.filled(gpu=self.gpus)
        elif asked.gpu < self.gpus:
            raise ValueError(f"`resources.gpu: {asked.gpu}` is too few: the build needs {self.gpus}")
        if self.memory_mib is not None and self.memory_mib * 2**20 > size_of(memory):
            raise ValueError(
                f"`memory_mib: {self.memory_mib}` is above the pod's `resources.memory: {memory}`"
            )
        return self

    def _limited(self, arguments: list[str]) -> list[str]:
        return [*arguments, "--memory-mib", str(self.memory_mib or self.tools_memory_mib)]


class TensorRtConversion(TensorRtOptions, EngineSettings):
    """An engine, built from ONNX for one kind of GPU. Not run on a GPU yet."""

    compares: ClassVar[bool] = True
    makes_engine: ClassVar[bool] = True
    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    program: ClassVar[str] = "convert_tensorrt.py"
    default_image: ClassVar[str] = "tensorrt"
    target: Literal["tensorrt"] = "tensorrt"
    parity: ParityRules = ParityRules()

    def converter_arguments(self, uri: Uri) -> list[str]:
        """How the engine is built, and the tolerances."""
        return self._limited([*self.arguments(), *self.parity.arguments()])


class TensorRtLlmConversion(TensorRtLlmOptions, EngineSettings):
    """Engines of a language model and the repository around them. Not run on a GPU yet."""

    source_formats: ClassVar[tuple[str, ...]] = ("checkpoint",)
    lays_out_repository: ClassVar[bool] = True
    program: ClassVar[str] = "convert_tensorrt_llm.py"
    default_image: ClassVar[str] = "tensorrt-llm"
    default_disk: ClassVar[Quantity] = "500Gi"
    target: Literal["tensorrt_llm"] = "tensorrt_llm"
    resources: LanguageModelResources = LanguageModelResources()

    @property
    def gpus(self) -> int:
        """One for each part of the model."""
        return self.tp_size * self.pp_size

    def converter_arguments(self, uri: Uri) -> list[str]:
        """How the engines are built and the repository is filled in."""
        return self._limited(self.arguments())

    @property
    def has_source(self) -> bool:
        """Not where the hub has the checkpoint."""
        return self.hub is None


def _target_of(value: Any) -> Any:
    """Tell the classes apart by `target`; a file that names none means ONNX."""
    return value.get("target", "onnx") if isinstance(value, Mapping) else getattr(value, "target", None)


Conversion = Annotated[
    Annotated[OnnxConversion, Tag("onnx")]
    | Annotated[SklearnConversion, Tag("sklearn")]
    | Annotated[XgboostConversion, Tag("xgboost")]
    | Annotated[LightgbmConversion, Tag("lightgbm")]
    | Annotated[PytorchConversion, Tag("pytorch")]
    | Annotated[PythonConversion, Tag("python")]
    | Annotated[EnsembleConversion, Tag("ensemble")]
    | Annotated[TensorRtConversion, Tag("tensorrt")]
    | Annotated[TensorRtLlmConversion, Tag("tensorrt_llm")],
    Discriminator(_target_of),
]
"""The pod that turns the source into what Triton serves, by target."""

_CONVERSION: TypeAdapter[Conversion] = TypeAdapter(Conversion, config=ConfigDict(defer_build=True))


def variant_of(conversion: Conversion, name: str) -> Conversion:
    """Return the conversion of one of its variants; raises pydantic's ValidationError where its keys make none."""
    written = conversion.model_dump(mode="json", exclude_unset=True, exclude={"variants", "choose"})
    changed = {key: value for key, value in conversion.variants[name].items() if key != OPTIONAL}
    return _CONVERSION.validate_json(json.dumps(merged(written, changed)))
