"""The release file, typed: what a model is made of, how it is served, what it must prove.

Its parts lie in the modules and packages beside it.

`python -m slipway_core.spec --schema` prints the JSON schema (for editors),
`python -m slipway_core.spec FILE…` checks release files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from slipway_core.errors import SpecError
from slipway_core.identifiers import list_models, parse_version, release_file, validate_model_name
from slipway_core.spec.benchmark import Benchmark, ServiceLevel, TextGeneration
from slipway_core.spec.conversion.conversion import Conversion, variant_of
from slipway_core.spec.conversion.source import Source
from slipway_core.spec.golden import Golden
from slipway_core.spec.notify import Notify, NotifyRule
from slipway_core.spec.parts import FileName, SpecPart, merged
from slipway_core.spec.pods.resources import Resources
from slipway_core.spec.pods.toleration import Toleration
from slipway_core.spec.publish import Encryption, Publishing, Signing
from slipway_core.spec.registry import Registry
from slipway_core.spec.retention import Retention
from slipway_core.spec.revalidation import Revalidation
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.rollout.approval import Approval
from slipway_core.spec.rollout.metrics import Metrics
from slipway_core.spec.rollout.mirror_comparison import MirrorComparison
from slipway_core.spec.rollout.plan import Exposure, RolloutStep
from slipway_core.spec.rollout.rollout import Rollout
from slipway_core.spec.servers.gpu import resources_served, where_it_is_tried
from slipway_core.spec.serving.sequences import REFUSAL
from slipway_core.spec.serving.serving import DynamicBatching, InstanceGroup, Serving, VersionPolicy
from slipway_core.spec.smoke_test import SmokeTest
from slipway_core.spec.suites.expectations import Expectation
from slipway_core.spec.suites.named_files import parse_suite, read_named_files
from slipway_core.spec.tuning import Tuning
from slipway_core.spec.validation import Validation
from slipway_rules.text_forms import MODEL_NAME_LIMIT, is_dns_label

__all__ = [
    "AnalysisPolicy",
    "Approval",
    "Benchmark",
    "Conversion",
    "DynamicBatching",
    "Encryption",
    "Exposure",
    "Golden",
    "InstanceGroup",
    "Metrics",
    "MirrorComparison",
    "NotifyRule",
    "Publishing",
    "Registry",
    "ReleaseSpec",
    "Resources",
    "Retention",
    "Revalidation",
    "Rollout",
    "RolloutStep",
    "ServiceLevel",
    "Serving",
    "Signing",
    "SmokeTest",
    "Source",
    "TextGeneration",
    "Toleration",
    "Validation",
    "VersionPolicy",
    "apply_overrides",
    "list_models",
    "load_model_spec",
    "load_release_spec",
    "parse_release_spec",
    "parse_version",
    "validate_model_name",
]


def _model_label(text: str) -> str:
    if not is_dns_label(text, MODEL_NAME_LIMIT):
        raise ValueError(
            f"must be lower-case letters, digits and inner hyphens, at most {MODEL_NAME_LIMIT} characters"
        )
    return text


class ReleaseSpec(SpecPart):
    """A whole release file. Only `model` and `source` must be given."""

    model: Annotated[str, AfterValidator(_model_label)]
    description: str = ""
    critical: bool = False
    """A bad version does serious harm: unless `rollout.approval` says otherwise, another person than who started the
    run agrees before the promotion.
    """
    breaking: bool = False
    """It takes the place of a model of another name, whose clients it would break: they change to this name one by one.
    Under the same name a version that breaks clients is refused, whatever is said here.
    """
    source: Source
    golden: Golden = Golden()
    conversion: Conversion = Field(default_factory=Conversion.default)
    serving: Serving = Serving()
    publish: Publishing = Publishing()
    smoke_test: SmokeTest | None = SmokeTest()
    """null: nothing is loaded on its own server first, and a version that crashes its server crashes staging's."""
    validation: Validation = Field(default_factory=Validation.default)
    benchmark: Benchmark = Benchmark()
    tuning: Tuning = Tuning()
    rollout: Rollout = Field(default_factory=Rollout)
    retention: Retention = Retention()
    revalidation: Revalidation = Revalidation()
    notify: Notify | None = None
    """Who is notified of what; default: as the environment variable `SLIPWAY_NOTIFY` says for all models."""
    registry: Registry | None = None
    """None: no registry is read or notified."""
    files: dict[FileName, str] = Field(default_factory=dict)
    """Set by Slipway, not by you: the texts of the files that the release file names, as they were when it was read."""

    @model_validator(mode="after")
    def _fill_and_check(self) -> Self:
        if not self.rollout.inference_service:
            self.__dict__["rollout"] = self.rollout.filled(inference_service=self.model)
        if self.critical:
            self.__dict__["rollout"] = self.rollout.filled(approval=_of_critical(self.rollout.approval))
        self._require_fitting_target()
        self._fill_health()
        served = resources_served(self.rollout, self.conversion, self.serving)
        self.__dict__["rollout"] = self.rollout.filled(resources=served)
        if self.smoke_test is not None:
            self.__dict__["smoke_test"] = where_it_is_tried(
                self.smoke_test, self.conversion, self.serving, self.rollout
            )
        self._require_streams_judged()
        sequences = self.serving.sequence_batching
        if sequences is not None and not sequences.iterative:
            raise ValueError(f"`serving`: {REFUSAL}")
        if self.conversion.lays_out_repository:
            # It brings its own config.pbtxt; what `serving` does not mention is said there.
            return self
        limit = self.serving.max_batch_size
        if limit and "batch_size" not in self.validation.model_fields_set:
            size = min(limit, self.validation.batch_size)
            self.__dict__["validation"] = self.validation.filled(batch_size=size)
        if limit and self.validation.batch_size > limit:
            raise ValueError(
                f"`validation.batch_size: {self.validation.batch_size}` is above "
                f"`serving.max_batch_size: {limit}`"
            )
        return self

    def _require_streams_judged(self) -> None:
        obstacle = self.rollout.streams_obstacle(self.rollout.deployment_mode)
        if self.serving.decoupled and obstacle is not None:
            found, remedy = obstacle
            raise ValueError(
                f"`serving.decoupled: true`: the answers inside the model's streams would not be checked: {found}. "
                f"{remedy[0].upper()}{remedy[1:]}"
            )

    def named_file(self, name: str) -> str:
        """Return the text of a file beside the release file that it names.

        :raises SpecError: the release file was read without it.
        """
        if name not in self.files:
            raise SpecError(
                f"the release file of {self.model} names {name}, which was not read with it",
                expected="its text, read when the release file was",
                remedy="Put it in the release file's folder, and start the release again.",
            )
        return self.files[name]

    def expectations_of_golden(self) -> tuple[Expectation, ...]:
        """Return what is expected of the golden set: the release file's own, then those of its suite."""
        return self._with_suite(self.golden.expectations, self.golden.suite)

    def expectations_of_answers(self) -> tuple[Expectation, ...]:
        """Return what is expected of the answers' table: the release file's own, then those of its suite."""
        return self._with_suite(self.validation.expectations, self.validation.suite)

    def _with_suite(self, own: tuple[Expectation, ...], suite: str | None) -> tuple[Expectation, ...]:
        return own if suite is None else (*own, *parse_suite(self.named_file(suite), suite))

    def required_files(self) -> tuple[str, ...]:
        """Return what must have arrived beside ready.json, as far as the release file knows names."""
        converter_files = (file for conversion in self._conversions() for file in conversion.files())
        return tuple(dict.fromkeys((*self.source.required_files(), *converter_files)))

    def _conversions(self) -> list[Conversion]:
        """Return each conversion that is made: of every variant, or the only one."""
        return [variant_of(self.conversion, name) for name in self.conversion.variants] or [self.conversion]

    def _fill_health(self) -> None:
        """Any of the variants may be the one that is published."""
        if any(one.scales_each_request for one in self._conversions()):
            health = self.validation.health.of_scaled_requests()
            self.__dict__["validation"] = self.validation.filled(health=health)

    def _require_fitting_target(self) -> None:
        """The source fits the target, and each variant makes a conversion to the same target."""
        for name, changed in self.conversion.variants.items():
            try:
                if "target" in changed or {"variants", "choose"} & changed.keys():
                    raise ValueError("it may not change `target`, `variants` or `choose`")
                variant_of(self.conversion, name)
            except ValueError as error:
                said = str(error).splitlines()
                raise ValueError(f"`conversion.variants.{name}`: {' '.join(said[-2:])}") from error
        conversion, source = self.conversion, self.source
        if source.format not in conversion.source_formats:
            raise ValueError(
                f"`conversion.target: {conversion.target}` is made of `source.format: "
                f"{' or '.join(conversion.source_formats)}`, not of `{source.format}`"
            )
        policy = self.serving.version_policy
        if conversion.lays_out_repository and policy is not None and policy.mode != "specific":
            raise ValueError(
                f"`serving.version_policy`: `conversion.target: {conversion.target}` is pinned to the released "
                f"version, with its members; leave `mode: {policy.mode}` out"
            )


def _of_critical(approval: Approval) -> Approval:
    """Return the approvals of a critical model: what the file says, else a second person before the promotion."""
    wanted = {"before_promotion": True, "by_other": True}
    unsaid = {name: value for name, value in wanted.items() if name not in approval.model_fields_set}
    return approval.filled(**unsaid) if unsaid else approval


def parse_release_spec(
    text: str, source: str, folder: Path | None = None, *, insists: bool = True
) -> ReleaseSpec:
    """Read a release file's text.

    :param source: what an error calls it.
    :param folder: where it lies, with the files that it names; None: they are not read.
    :param insists: whether a file that it names and that cannot be used is an error already here.
    :raises SpecError: it cannot be used; names file, line and key, and for an unknown key the nearest valid one.
    """
    from slipway_core.documents.yaml_source import parse_yaml_mapping
    from slipway_core.spec.complaints import explain

    parsed = parse_yaml_mapping(text, source)
    if parsed.data.get("files"):
        raise SpecError(
            f"{source}, line {parsed.line_of(('files',))}: `files` is not to be written",
            remedy="Remove the key: the files that a release file names are read with it.",
        )
    try:
        spec = _validate(parsed.data)
        files = {} if folder is None else read_named_files(parsed.data, folder, source, insists=insists)
        return _validate({**parsed.data, "files": files}) if files else spec
    except ValidationError as error:
        raise explain(error, ReleaseSpec, parsed) from error


def release_spec_of(data: Mapping[str, Any], source: str) -> ReleaseSpec:
    """Return the release file that `data` is the JSON form of, such as one that a task was given.

    :param source: what an error calls it.
    :raises SpecError: it is invalid.
    """
    from slipway_core.documents.yaml_source import YamlSource
    from slipway_core.spec.complaints import explain

    parsed = YamlSource(source, dict(data), {}, {})
    try:
        return _validate(parsed.data)
    except ValidationError as error:
        raise explain(error, ReleaseSpec, parsed) from error


def load_release_spec(path: Path, *, insists: bool = True) -> ReleaseSpec:
    """Read a release file from disk, with the files beside it that it names.

    :param insists: whether one of these that cannot be used is an error already here.
    :raises SpecError: as `parse_release_spec` does, and when the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"{path.name} cannot be read",
            expected="a readable UTF-8 text file",
            found=getattr(error, "strerror", None) or str(error),
            remedy="Check the path, its permissions and its encoding.",
        ) from error
    return parse_release_spec(text, path.name, path.parent, insists=insists)


def load_model_spec(releases_dir: Path, model: str, *, insists: bool = False) -> ReleaseSpec:
    """Read the release file of `model`.

    :param insists: whether a file beside it that it names and that cannot be used is an error already here, as it is
        where a release begins; a way back, a freeze or a page needs none of them.
    :raises UnknownModelError: there is none; it lists the known models.
    :raises SpecError: the file is wrong, or is about another model.
    """
    path = release_file(releases_dir, model)
    spec = load_release_spec(path, insists=insists)
    if spec.model != model:
        raise SpecError(
            f"{path.name} is about another model",
            expected=f"`model: {model}`",
            found=f"`model: {spec.model}`",
            remedy="Rename the file or correct the key: they must agree.",
        )
    return spec


def apply_overrides(spec: ReleaseSpec, overrides: Mapping[str, Any], source: str) -> ReleaseSpec:
    """Return `spec` with `overrides` laid over it, checked again: mappings merge, all else replaces.

    :param source: what an error calls the overrides, for example "the run's parameters".
    :raises SpecError: they make no release file.
    """
    return release_spec_of(merged(spec.model_dump(mode="json", exclude_unset=True), overrides), source)


def _validate(data: Mapping[str, Any]) -> ReleaseSpec:
    # Strict JSON mode: lists become tuples, but "5" does not become 5 nor `true` a number.
    return ReleaseSpec.model_validate_json(json.dumps(data))
