"""What the release file may say under `conversion` for each target that runs on a CPU, and how it is judged.

A class's `program` is a file of `include/pod_scripts/`, its `target_arguments` what that gets beside the arguments
that all have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from include.model_release.spec.parts import FileName, Share, SpecPart, Text, size_of

# What a tool may take of its pod's memory: the rest is the program's, and the pages of its files.
_TOOLS_SHARE = Fraction(7, 8)

# Makes an S3 address of the name of a file beside the source.
Uri = Callable[[str], str]
NotNegative = Annotated[float, Field(ge=0)]
Measure = Literal["tolerance", "cosine", "top_k"]
Library = Literal["sklearn", "xgboost", "lightgbm"]


def tool_memory_mib(quantity: str) -> int:
    """Return what a tool may take in a pod whose memory is a Kubernetes quantity, in MiB, at least 1.

    Less than the pod has: the tool is then refused memory and says so, instead of the pod being killed.
    """
    return max(1, int(size_of(quantity) * _TOOLS_SHARE / 2**20))


class ParityRule(SpecPart):
    """What an output is held to; `measure` names what decides, the other figures are reported all the same."""

    measure: Measure = "tolerance"
    """`tolerance`: each element within abs + rel * |source|. `cosine`: the similarity of each row's vector.
    `top_k`: the best classes of each row. Outputs that are no vectors of fractions, such as labels, are held
    to equality or to the tolerance, whatever is written here.
    """
    abs_tolerance: NotNegative = 1e-4
    rel_tolerance: NotNegative = 1e-3
    within_min: Share = 1.0
    """`tolerance`: the least share of the rows that must be within it."""
    cosine_min: Share = 0.999
    """`cosine`: the least similarity, in every row."""
    top_k: Annotated[int, Field(ge=1, le=1000)] = 1
    """`top_k`: how many of the best classes must be the same; their order does not count."""
    agreement_min: Share = 0.99
    """`top_k`: the least share of the rows that must agree."""


class ParityRules(ParityRule):
    """How far the converted model's answers may be from the source's, over the golden set."""

    outputs: dict[Text, ParityRule] = Field(default_factory=dict)
    """Outputs that are held to something else. Keys that are left out there are those of the release, not
    the defaults.
    """

    def arguments(self) -> list[str]:
        """Return the arguments that every converter understands."""
        rule = self.model_dump(exclude={"outputs"})
        given = ["--parity-measure", rule.pop("measure")]
        for key, value in rule.items():
            given += [f"--{key.replace('_', '-')}", str(value)]
        for name, other in sorted(self.outputs.items()):
            said = {"output": name, **other.model_dump(exclude_unset=True)}
            given += ["--output-parity", json.dumps(said, sort_keys=True)]
        return given


class Quantization(SpecPart):
    """How int8 is reached."""

    method: Literal["dynamic", "static"] = "dynamic"
    """`dynamic`: activations are scaled anew in each request. `static`: with scales taken from calibration
    rows, which is faster and needs them.
    """
    calibration_file: FileName | None = None
    """`static`: rows of training data beside the model, an .npz with one array for each input. Not the golden
    set: parity would be measured on what the scales were fitted to.
    """
    calibration_method: Literal["minmax", "entropy", "percentile"] = "minmax"
    per_channel: bool = False
    """A scale for each channel of a weight: more exact, and not known to every runtime."""

    @model_validator(mode="after")
    def _calibrated(self) -> Self:
        if (self.method == "static") != (self.calibration_file is not None):
            raise ValueError("calibration_file belongs to `method: static`, which needs it")
        return self


class PrecisionOptions(SpecPart):
    """The precision of a network; what goes in and comes out stays as it is."""

    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    quantization: Quantization = Quantization()
    keep_fp32: tuple[Text, ...] = ()
    """Names of nodes to leave as they are, where a lower precision costs too much accuracy."""

    @model_validator(mode="after")
    def _quantised(self) -> Self:
        if self.quantization != Quantization() and self.precision != "int8":
            raise ValueError("quantization belongs to `precision: int8`")
        return self

    def precision_arguments(self, uri: Uri) -> Iterator[str]:
        """Yield the arguments on precision; `uri` makes an S3 address of a file's name."""
        yield from ("--precision", self.precision)
        for node in self.keep_fp32:
            yield from ("--keep-fp32", node)
        if self.precision == "int8":
            quantization = self.quantization
            yield from ("--quantization", quantization.method)
            yield from ("--calibration-method", quantization.calibration_method)
            if quantization.calibration_file is not None:
                yield from ("--calibration", uri(quantization.calibration_file))
            if quantization.per_channel:
                yield "--per-channel"

    def precision_files(self) -> tuple[str, ...]:
        """Return the files beside the source that the precision needs."""
        file = self.quantization.calibration_file
        return () if file is None else (file,)


class OnnxOptions(PrecisionOptions):
    """`target: onnx`: checked, simplified, optimised, in the precision that is asked for."""

    program: ClassVar[str] = "convert_onnx.py"

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return what the program gets; `uri` makes an S3 address of a file's name."""
        return list(self.precision_arguments(uri))


class PytorchOptions(PrecisionOptions):
    """`target: pytorch`: TorchScript, an exported program, or a state_dict with the class of its module."""

    program: ClassVar[str] = "convert_pytorch.py"

    format: Literal["torchscript", "export", "state_dict"] = "torchscript"
    """`torchscript` holds no Python code. `export` (.pt2) is unpickled, and for `state_dict` the module's file
    is run: both need `trusted: true`.
    """
    trusted: bool = False
    """The source may run code in the conversion's pod, with the pod's rights on the bucket."""
    module: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")] | None = None
    """`state_dict`: the module's class, as `package.module:Class`."""
    module_file: FileName | None = None
    """`state_dict`: the Python file with the class, beside the model."""
    module_arguments: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    """`state_dict`: what the class's constructor gets, by name."""
    inputs: tuple[Text, ...] = ()
    """The golden columns that forward takes, in order; by default those named like its arguments."""
    outputs: tuple[Text, ...] = ()
    """Names for what forward returns, in order; by default a dictionary's keys, else output or output_0, ..."""

    @model_validator(mode="after")
    def _loadable(self) -> Self:
        named = (self.module is not None, self.module_file is not None)
        if named != ((self.format == "state_dict"),) * 2:
            raise ValueError("module and module_file belong to `format: state_dict`, which needs both")
        if self.format != "torchscript" and not self.trusted:
            raise ValueError(f"`format: {self.format}` runs code from the source: it needs `trusted: true`")
        return self

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return what the program gets; `uri` makes an S3 address of a file's name."""
        given = ["--format", self.format, *(["--trusted"] if self.trusted else [])]
        if self.module is not None and self.module_file is not None:
            given += ["--module", self.module, "--module-file", uri(self.module_file)]
            given += ["--module-arguments", json.dumps(self.module_arguments, sort_keys=True)]
        for option, names in (("--inputs", self.inputs), ("--outputs", self.outputs)):
            given += [option, ",".join(names)] if names else []
        return [*given, *self.precision_arguments(uri)]


class EstimatorOptions(SpecPart):
    """What the three libraries of estimators have in common: one table of float32 goes in."""

    program: ClassVar[str] = "convert_estimator.py"
    library: ClassVar[Library]

    precision: Literal["fp32"] = "fp32"
    """Trees compare with thresholds: there is nothing that a lower precision would make faster."""
    trusted: bool = False
    """The source may be a pickle (.pkl, .pickle, .joblib), which can run any code in the conversion's pod with
    the pod's rights on the bucket. Not needed for the libraries' own formats.
    """
    input: Text = "X"
    """The name that the model's one input gets; the golden column has the same."""

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return what the program gets; `uri` makes an S3 address of a file's name, which none needs."""
        given = ["--library", self.library, "--precision", self.precision, "--input", self.input]
        return [*given, *(["--trusted"] if self.trusted else [])]


class SklearnOptions(EstimatorOptions):
    """`target: sklearn`: a fitted classifier, regressor or pipeline, best as a .skops file."""

    library: ClassVar[Library] = "sklearn"

    trusted_types: tuple[Text, ...] = ()
    """Types in a .skops file that skops does not trust by itself, such as sklearn.tree._tree.Tree in forests."""

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return what the program gets, with the types that are trusted."""
        types = (argument for name in self.trusted_types for argument in ("--trusted-type", name))
        return [*super().target_arguments(uri), *types]


class XgboostOptions(EstimatorOptions):
    """`target: xgboost`: a Booster in XGBoost's own format, .ubj or .json."""

    library: ClassVar[Library] = "xgboost"


class LightgbmOptions(EstimatorOptions):
    """`target: lightgbm`: a Booster in LightGBM's own text, .txt."""

    library: ClassVar[Library] = "lightgbm"
