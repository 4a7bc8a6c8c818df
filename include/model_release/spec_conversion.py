"""The release file's `source` and `conversion`: what training leaves, and what is made of it.

Each target of a conversion is a class of its own with the options that it has, and says which arguments its
converter is given. A new target is a new class here, or in a file of its own, and a line in `Conversion`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, JsonValue, Tag, TypeAdapter, model_validator

from include.model_release.spec_parts import DnsLabel, FileName, ImageReference, PodSettings, SpecPart, merged
from include.model_release.spec_tensorrt import TensorRtLlmOptions, TensorRtOptions

ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
_MODEL_FILE = "model.onnx"
# Formats that are many files and not one.
_TREES = ("python", "repository", "checkpoint")


class Source(SpecPart):
    """What training leaves under incoming/MODEL/VERSION/."""

    format: Literal["onnx", "python", "repository", "checkpoint"] = "onnx"
    """`onnx`: one file. `python`: the files of one model of Triton's Python backend, with its config.pbtxt.
    `repository`: a whole Triton model repository, an ensemble and its members. `checkpoint`: a language model's
    folder in the form of Hugging Face.
    """
    model_file: FileName = _MODEL_FILE
    """The file, for a format that is one file."""
    folder: FileName | None = None
    """Where the files lie, for a format that is many. Left out: `repository/` and `checkpoint/` for those, the
    version's own folder for Python.
    """
    archive: FileName | None = None
    """Instead of a folder: one archive (tar, tar.gz, zip) that holds its content."""
    golden_file: FileName = "golden.npz"
    """Inputs with known answers: one array per model input and one with labels, all with the same number of
    rows.
    """

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        is_tree = self.format in _TREES
        if is_tree and self.model_file != _MODEL_FILE:
            raise ValueError(f"`format: {self.format}` is many files; name a `folder` or an `archive`")
        if not is_tree and (self.folder or self.archive):
            raise ValueError(f"`format: {self.format}` is one file; name it as `model_file`")
        if self.folder and self.archive:
            raise ValueError("give either `folder` or `archive`")
        if self.archive and not self.archive.endswith(ARCHIVE_SUFFIXES):
            raise ValueError(f"`archive` must end with one of {', '.join(ARCHIVE_SUFFIXES)}")
        return self

    @property
    def location(self) -> str:
        """Where the source lies, relative to incoming/MODEL/VERSION/: a file's name, or a folder's prefix.

        A prefix ends with a slash, or is empty for the version's own folder.
        """
        if self.format not in _TREES:
            return self.model_file
        if self.archive:
            return self.archive
        folder = self.folder or ("" if self.format == "python" else self.format)
        return f"{folder}/" if folder else ""

    @property
    def is_folder(self) -> bool:
        """Whether `location` is a prefix with many objects below it."""
        return self.format in _TREES and not self.archive

    def required_files(self) -> tuple[str, ...]:
        """Return what must have arrived beside ready.json, as far as the release file knows names."""
        if not self.is_folder:
            return (self.location, self.golden_file)
        known = ("config.pbtxt", "model.py") if self.format == "python" else ()
        return (*(self.location + name for name in known), self.golden_file)


class Parity(SpecPart):
    """How far the converted model's answers may be from the source's: |a - b| <= abs + rel * |a|."""

    abs_tolerance: Annotated[float, Field(ge=0)] = 1e-4
    rel_tolerance: Annotated[float, Field(ge=0)] = 1e-3

    def arguments(self) -> list[str]:
        """Return the tolerances as a converter's command line has them."""
        return ["--abs-tolerance", str(self.abs_tolerance), "--rel-tolerance", str(self.rel_tolerance)]


class TargetSettings(PodSettings):
    """What the conversions to all targets share: a pod, and an image that is named after the target."""

    source_formats: ClassVar[tuple[str, ...]]
    """The formats that this target can be made of."""
    lays_out_repository: ClassVar[bool] = False
    """Whether the converter leaves a whole model repository with its configurations, for which it is told model
    and version; otherwise it leaves one file, and `serving` describes how that is served.
    """
    # A subclass narrows it to its own name.
    target: str
    image: ImageReference = ""
    """Left out: `slipway/TARGET:0.1.0`, with hyphens for underscores."""
    variants: dict[DnsLabel, dict[str, JsonValue]] = Field(default_factory=dict)
    """Conversions to make beside each other: for each a name and the keys that differ from this section's."""
    choose: Literal["fastest", "all"] = "fastest"
    """Of the variants within their tolerance: the one whose requests take least in the converter's own
    measurement; or `all`, for engines, one for each kind of GPU.
    """

    @model_validator(mode="after")
    def _name_the_image(self) -> Self:
        if not self.image:
            # Not in model_fields_set: it follows from the target and is not the user's word.
            self.__dict__["image"] = f"slipway/{self.target.replace('_', '-')}:0.1.0"
        return self

    def arguments(self) -> list[str]:
        """Return this target's own options as arguments of `convert_TARGET.py`."""
        return []

    @property
    def has_source(self) -> bool:
        """Whether the converter reads what training left, and not a model from elsewhere."""
        return True


class OnnxConversion(TargetSettings):
    """ONNX, checked, simplified and optimised."""

    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    target: Literal["onnx"] = "onnx"
    precision: Literal["fp32"] = "fp32"
    parity: Parity = Parity()

    def arguments(self) -> list[str]:
        """The precision and the tolerances."""
        return ["--precision", self.precision, *self.parity.arguments()]


class PythonConversion(TargetSettings):
    """A model of Triton's Python backend: checked and passed through as it is."""

    source_formats: ClassVar[tuple[str, ...]] = ("python",)
    lays_out_repository: ClassVar[bool] = True
    target: Literal["python"] = "python"
    max_size_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 2048
    """All files together."""
    try_import: bool = False
    """Import `model.py` in the pod, which runs its module-level code; the image must hold what it imports.
    Otherwise none of it is run before staging.
    """

    def arguments(self) -> list[str]:
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
    target: Literal["ensemble"] = "ensemble"
    max_size_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    """All files of all members together."""

    def arguments(self) -> list[str]:
        """The size limit."""
        return ["--max-size-mib", str(self.max_size_mib)]


class TensorRtConversion(TensorRtOptions, TargetSettings):
    """An engine, built from ONNX for one kind of GPU. Not run on a GPU yet."""

    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    target: Literal["tensorrt"] = "tensorrt"
    parity: Parity = Parity()

    def arguments(self) -> list[str]:
        """How the engine is built, and the tolerances."""
        return [*super().arguments(), *self.parity.arguments()]


class TensorRtLlmConversion(TensorRtLlmOptions, TargetSettings):
    """Engines of a language model and the repository around them. Not run on a GPU yet."""

    source_formats: ClassVar[tuple[str, ...]] = ("checkpoint",)
    lays_out_repository: ClassVar[bool] = True
    target: Literal["tensorrt_llm"] = "tensorrt_llm"

    @property
    def has_source(self) -> bool:
        """Not where the hub has the checkpoint."""
        return self.hub is None


def _target_of(value: Any) -> Any:
    """Tell the classes apart by `target`; a file that names none means ONNX."""
    return value.get("target", "onnx") if isinstance(value, Mapping) else getattr(value, "target", None)


Conversion = Annotated[
    Annotated[OnnxConversion, Tag("onnx")]
    | Annotated[PythonConversion, Tag("python")]
    | Annotated[EnsembleConversion, Tag("ensemble")]
    | Annotated[TensorRtConversion, Tag("tensorrt")]
    | Annotated[TensorRtLlmConversion, Tag("tensorrt_llm")],
    Discriminator(_target_of),
]
"""The pod that turns the source into what Triton serves, by target."""

_CONVERSION: TypeAdapter[Conversion] = TypeAdapter(Conversion)


def variant_of(conversion: Conversion, name: str) -> Conversion:
    """Return the conversion of one of its variants; raises pydantic's ValidationError where its keys make none."""
    written = conversion.model_dump(mode="json", exclude_unset=True, exclude={"variants", "choose"})
    return _CONVERSION.validate_json(json.dumps(merged(written, conversion.variants[name])))
