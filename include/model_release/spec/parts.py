"""What every part of the release file is made of: strict values, and what a pod may say of where it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from include.model_release.identifiers import is_dns_label

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_UNITS = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{
        unit: Fraction(1024) ** power
        for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
    },
}


def _dns_label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError("must be lower-case letters, digits and inner hyphens, at most 63 characters")
    return text


def _file_name(text: str) -> str:
    if not _FILE_NAME.fullmatch(text) or ".." in text:
        raise ValueError("must be the plain name of a file beside ready.json, such as model.onnx")
    return text


def _image_reference(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError("must be an image with a tag or digest, such as slipway/onnx:0.1.0")
    if text.endswith(":latest"):
        raise ValueError("must not be tagged `latest`: a release names what it runs")
    return text


def _quantity_text(value: object) -> object:
    # `cpu: 1` is what people write; Kubernetes wants text.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _quantity(text: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise ValueError("must be a Kubernetes quantity, such as 500m, 2 or 2Gi")
    return text


def size_of(quantity: str) -> Fraction:
    """Return a Kubernetes quantity as a number: of bytes, where it is one of memory."""
    number = quantity.rstrip("mkMGTPEi")
    return Fraction(number) * _UNITS[quantity.removeprefix(number)]


DnsLabel = Annotated[str, AfterValidator(_dns_label)]
FileName = Annotated[str, AfterValidator(_file_name)]
ImageReference = Annotated[str, AfterValidator(_image_reference)]
Quantity = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_quantity)]
Text = Annotated[str, Field(min_length=1)]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
LONGEST_STARTUP_S = 3600
# What a pod asks of a node's disk that is not told how much it needs; its limit is larger.
_LEAST_DISK = "1Gi"
StartupSeconds = Annotated[int, Field(ge=1, le=LONGEST_STARTUP_S)]
Milliseconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


class SpecPart(BaseModel):
    """A piece of the release file: unknown keys are errors, values do not change and are not guessed at."""

    # Built when one is first read: importing a DAG reads none.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    def filled(self, **derived: Any) -> Self:
        """Return a copy with defaults that follow from other keys; they do not count as given by the user."""
        copy = self.model_copy()
        copy.__dict__.update(derived)
        return copy


class Resources(SpecPart):
    """What a container asks of its node."""

    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    gpu: Annotated[int, Field(ge=0, le=64)] = 0
    """Whole GPUs: Kubernetes gives no fractions of one."""
    ephemeral_storage: Quantity | None = None
    """Of the node's own disk, for files, logs and the scratch volume; asked for, and no more given. Left out: a
    little is asked for, and no more given than the kind of pod needs.
    """

    def to_kubernetes(self) -> dict[str, dict[str, str]]:
        """Return `{"requests", "limits"}`.

        CPU has no limit: throttling would show as latency that the model has not.
        """
        limited = {"memory": self.memory}
        if self.ephemeral_storage is not None:
            limited["ephemeral-storage"] = self.ephemeral_storage
        if self.gpu:
            limited["nvidia.com/gpu"] = str(self.gpu)
        return {"requests": {"cpu": self.cpu, **limited}, "limits": limited}


class Toleration(SpecPart):
    """A taint that a pod may ignore."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None

    def to_kubernetes(self) -> dict[str, str | int]:
        """Return the toleration as a pod's manifest spells it."""
        fields = {
            "key": self.key,
            "operator": self.operator,
            "value": self.value,
            "effect": self.effect,
            "tolerationSeconds": self.toleration_seconds,
        }
        return {name: value for name, value in fields.items() if value is not None}


class SecretKey(SpecPart):
    """A value that lies in a Kubernetes Secret of the pod's namespace, and never in the release file."""

    secret: DnsLabel
    key: Text


class PodSettings(SpecPart):
    """What every pod of a release may say about where it runs."""

    timeout_s: Seconds = 600
    """How long the program may work."""
    startup_timeout_s: StartupSeconds = 120
    """How long the pod may take to begin on its node: an image of many GB takes minutes. A node that is being made is
    waited for 15 minutes, an image whose pull fails 10, or as long as this says where it is longer.
    """
    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    default_disk: ClassVar[Quantity] = "20Gi"
    """The limit where neither `resources.ephemeral_storage` nor a larger `scratch_size` is given."""
    service_account: DnsLabel = "slipway"
    """Bound to an IAM role (IRSA): the pod's way to S3, without keys."""
    shm_size: Quantity | None = None
    """Shared memory at /dev/shm, taken from `resources.memory`; left out: the node's 64 MiB. Several GPUs talk to
    each other through it, and Triton's Python backend to its models: 1 MiB for each instance, more for large tensors.
    """
    scratch_size: Quantity | None = None
    """A volume of the node's disk at /tmp, all that the pod may write to; left out: as large as the pod's disk."""
    secret_env: dict[EnvironmentName, SecretKey] = {}
    """Environment variables from secrets, such as HF_TOKEN."""

    @property
    def disk_limit(self) -> str:
        """All that the pod may take of the node's disk, as a Kubernetes quantity."""
        if self.resources.ephemeral_storage is not None:
            return self.resources.ephemeral_storage
        return max(self.default_disk, self.scratch_limit, key=size_of)

    @property
    def scratch_limit(self) -> str:
        """How much of it the pod's temporary files may be, as a Kubernetes quantity."""
        return self.scratch_size or self.resources.ephemeral_storage or self.default_disk

    def container_resources(self) -> dict[str, dict[str, str]]:
        """Return the container's `{"requests", "limits"}`, with a limit to its disk in any case."""
        asked = self.resources.to_kubernetes()
        disk = "ephemeral-storage"
        return {
            "requests": {disk: _LEAST_DISK, **asked["requests"]},
            "limits": {**asked["limits"], disk: self.disk_limit},
        }

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        storage = self.resources.ephemeral_storage
        if storage and self.scratch_size and size_of(self.scratch_size) > size_of(storage):
            raise ValueError(
                f"`scratch_size: {self.scratch_size}` is above `resources.ephemeral_storage: {storage}`, "
                "of which it is a part"
            )
        return self


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `overrides` laid over it: mappings merge, all else replaces."""
    result = dict(base)
    for key, value in overrides.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result
