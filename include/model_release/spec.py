"""The release file, typed: what a model is made of, how it is served, what it must prove.

`python -m include.model_release.spec --schema` prints the JSON schema (for editors),
`python -m include.model_release.spec FILE…` checks release files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from include.model_release.errors import SpecError
from include.model_release.metrics_queries import DEFAULT_LOOKBACK_S, check_selector
from include.model_release.names import (
    MODEL_NAME_LIMIT,
    is_dns_label,
    list_models,
    parse_version,
    release_file,
    validate_model_name,
)

__all__ = [
    "Analysis",
    "Approval",
    "Benchmark",
    "Conversion",
    "DynamicBatching",
    "InstanceGroup",
    "Metrics",
    "MetricsOverrides",
    "Parity",
    "ReleaseSpec",
    "Resources",
    "Rollout",
    "RolloutStep",
    "ServiceLevel",
    "Serving",
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

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def _dns_label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError("must be lower-case letters, digits and inner hyphens, at most 63 characters")
    return text


def _model_label(text: str) -> str:
    if not is_dns_label(text, MODEL_NAME_LIMIT):
        raise ValueError(
            f"must be lower-case letters, digits and inner hyphens, at most {MODEL_NAME_LIMIT} characters"
        )
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


def _one_or_several(value: object) -> object:
    # `requests: a_total{…}` is what people write; some counts are the sum of two.
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _selector_of_revision(text: str) -> str:
    check_selector(text)
    return text


def _selector(text: str) -> str:
    check_selector(text, about_revision=False)
    return text


DnsLabel = Annotated[str, AfterValidator(_dns_label)]
FileName = Annotated[str, AfterValidator(_file_name)]
ImageReference = Annotated[str, AfterValidator(_image_reference)]
Quantity = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_quantity)]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
Milliseconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]
_OneOrSeveral = BeforeValidator(_one_or_several, json_schema_input_type=str | tuple[str, ...])
RevisionSelectors = Annotated[
    tuple[Annotated[str, AfterValidator(_selector_of_revision)], ...], _OneOrSeveral
]
WatchSelectors = Annotated[tuple[Annotated[str, AfterValidator(_selector)], ...], _OneOrSeveral]


class _Part(BaseModel):
    """A piece of the release file: unknown keys are errors, values do not change and are not guessed at."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def filled(self, **derived: Any) -> Self:
        """Return a copy with defaults that follow from other keys; they do not count as given by the user."""
        copy = self.model_copy()
        copy.__dict__.update(derived)
        return copy


class Resources(_Part):
    """What a container asks of its node."""

    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    gpu: Annotated[int, Field(ge=0, le=64)] = 0
    """Whole GPUs: Kubernetes gives no fractions of one."""

    def to_kubernetes(self) -> dict[str, dict[str, str]]:
        """Return `{"requests", "limits"}`.

        CPU has no limit: throttling would show as latency that the model has not.
        """
        gpus = {"nvidia.com/gpu": str(self.gpu)} if self.gpu else {}
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory, **gpus},
            "limits": {"memory": self.memory, **gpus},
        }


class Toleration(_Part):
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


class Source(_Part):
    """What training leaves under incoming/MODEL/VERSION/."""

    format: Literal["onnx"] = "onnx"
    model_file: FileName = "model.onnx"
    golden_file: FileName = "golden.npz"
    """Inputs with known answers: one array per model input and one with labels, all with the same number of
    rows.
    """


class Parity(_Part):
    """How far the converted model's answers may be from the source's: |a - b| <= abs + rel * |a|."""

    abs_tolerance: Annotated[float, Field(ge=0)] = 1e-4
    rel_tolerance: Annotated[float, Field(ge=0)] = 1e-3


class _Pod(_Part):
    """What every pod of a release may say about where it runs."""

    timeout_s: Seconds = 600
    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    service_account: DnsLabel = "slipway"


class Conversion(_Pod):
    """The pod that turns the source into what Triton serves."""

    target: Literal["onnx"] = "onnx"
    precision: Literal["fp32"] = "fp32"
    image: ImageReference = "slipway/onnx:0.1.0"
    parity: Parity = Parity()


class DynamicBatching(_Part):
    """Triton gathers single requests into batches for at most this long."""

    max_queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    preferred_batch_sizes: tuple[Count, ...] = ()


class InstanceGroup(_Part):
    """Copies of the model that run side by side."""

    kind: Literal["cpu", "gpu", "auto"] = "cpu"
    count: Annotated[int, Field(ge=1, le=1024)] = 1
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = ()

    @model_validator(mode="after")
    def _gpus_need_the_kind(self) -> Self:
        if self.gpus and self.kind != "gpu":
            raise ValueError("`gpus` needs `kind: gpu`")
        return self


class VersionPolicy(_Part):
    """Which versions Triton serves: `specific` (the released one) or the `latest` few of the repository."""

    mode: Literal["specific", "latest"] = "specific"
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """With `latest`: how many."""


class Serving(_Part):
    """What becomes the model's config.pbtxt."""

    platform: Literal["onnxruntime_onnx"] = "onnxruntime_onnx"
    max_batch_size: Annotated[int, Field(ge=0, le=65536)] = 64
    """0: the model takes no batch dimension."""
    dynamic_batching: DynamicBatching | None = DynamicBatching()
    instances: Annotated[tuple[InstanceGroup, ...], Field(min_length=1)] = (InstanceGroup(),)
    version_policy: VersionPolicy = VersionPolicy()

    @model_validator(mode="after")
    def _batches_fit(self) -> Self:
        if self.dynamic_batching is None:
            return self
        if self.max_batch_size == 0:
            raise ValueError(
                "`max_batch_size: 0` leaves nothing to batch; write `dynamic_batching: null` too"
            )
        if any(size > self.max_batch_size for size in self.dynamic_batching.preferred_batch_sizes):
            raise ValueError(f"`preferred_batch_sizes` go above `max_batch_size: {self.max_batch_size}`")
        return self


class Validation(_Part):
    """What the golden set must show on staging."""

    output: Text = "probabilities"
    """The output that holds scores by class (rows x classes), or the predicted class itself (rows)."""
    label: Text = "label"
    """The array of the golden set with the right class, an integer per row."""
    accuracy_min: Share = 0.9
    agreement_min: Share = 0.9
    """Share of golden rows that must get the same class as from the stable version."""
    batch_size: Count = 32
    """Golden rows per request; left out, no more than `serving.max_batch_size`."""
    timeout_s: Seconds = 60


class ServiceLevel(_Part):
    """What the candidate must reach by itself."""

    p99_ms: Milliseconds = 100.0
    throughput_min_rps: Annotated[float, Field(ge=0)] = 0.0
    error_percent_max: Percent = 0.0
    ttft_p99_ms: Milliseconds | None = None
    """Time to first token; for models that stream text."""
    itl_p99_ms: Milliseconds | None = None
    """Time between tokens; for models that stream text."""


class TextGeneration(_Part):
    """How genai-perf drives a model that generates text."""

    tokenizer: Text | None = None
    """A folder in the pod's image or an s3:// prefix; null takes the one of the image."""
    endpoint_type: Literal["kserve", "generate"] = "kserve"
    backend: Literal["vllm", "tensorrtllm"] = "vllm"
    streaming: bool = True
    input_tokens_mean: Count = 64
    output_tokens_mean: Count = 16


_GENERATOR_IMAGES = {
    "perf_analyzer": "slipway/perf-analyzer:0.1.0",
    "genai_perf": "slipway/genai-perf:0.1.0",
}


class Benchmark(_Pod):
    """The pod that measures candidate and stable side by side on staging."""

    generator: Literal["perf_analyzer", "genai_perf"] = "perf_analyzer"
    image: ImageReference = ""
    """Left out: slipway/perf-analyzer:0.1.0 or slipway/genai-perf:0.1.0, by the generator."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 2
    requests: Count = 200
    rounds: Annotated[int, Field(ge=1, le=100)] = 2
    """Candidate and stable take turns this many times; medians over the rounds are compared."""
    timeout_s: Seconds = 300
    slo: ServiceLevel = ServiceLevel()
    max_regression_percent: Annotated[float, Field(ge=0, le=1000)] = 25.0
    """How much worse than stable p99 latency and throughput may be."""
    regression_floor_ms: Annotated[float, Field(ge=0)] = 5.0
    """Latency differences below this are noise, whatever their percentage."""
    genai: TextGeneration | None = None

    @model_validator(mode="after")
    def _text_needs_its_generator(self) -> Self:
        if not self.image:
            self.__dict__["image"] = _GENERATOR_IMAGES[self.generator]
        text_slo = self.slo.ttft_p99_ms is not None or self.slo.itl_p99_ms is not None
        if self.generator == "genai_perf" and self.genai is None:
            raise ValueError("`generator: genai_perf` needs `genai:` (write `genai: {}` for its defaults)")
        if self.generator != "genai_perf" and (self.genai is not None or text_slo):
            raise ValueError("`genai:`, `ttft_p99_ms` and `itl_p99_ms` need `generator: genai_perf`")
        return self


class RolloutStep(_Part):
    """One weight of the canary and how long it is watched there."""

    weight: Annotated[int, Field(ge=1, le=99)]
    """Percent of traffic."""
    bake_s: Seconds


class Analysis(_Part):
    """What the judge of the canary holds against the candidate."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.01
    """How often a candidate that is no worse may be rolled back, over a whole canary."""
    error_margin_percent: Percent = 0.02
    """Percentage points by which the candidate may fail more often than stable."""
    error_ceiling_percent: Percent | None = None
    latency_quantile: Annotated[float, Field(gt=0, lt=1)] = 0.9999
    """Latencies are compared from the median up to here; lower it where the far tail is the machine's noise."""
    latency_margin_percent: Annotated[float, Field(ge=0, le=1000)] = 10.0
    latency_ceiling_ms: Milliseconds | None = None
    minimum_candidate_requests: Count = 50


class MetricsOverrides(_Part):
    """Selectors that replace those of the query set; several of one kind are added up, none (`[]`) asks none.

    Plain selectors, with {revision}, {namespace}, {model} and {inference_service} inside label values:
    `python -m include.model_release.metrics_queries` prints what they become.
    """

    requests: RevisionSelectors | None = None
    errors: RevisionSelectors | None = None
    latency: RevisionSelectors | None = None
    """Cumulative buckets, with the label `le` in `latency_unit`."""
    watched: WatchSelectors | None = None
    """Fresh and above 0 while the source sees the revision: then a counter that is lacking is 0."""


class Metrics(_Part):
    """Where the judge's numbers come from."""

    source: Literal["scrape", "prometheus"] = "scrape"
    """`scrape` reads the exposition endpoints of Envoy routers itself; `prometheus` asks a Prometheus."""
    queries: Literal["knative", "knative_otel", "istio", "envoy_gateway", "triton", "envoy"] | None = None
    """The query set; null leaves all to `overrides`."""
    overrides: MetricsOverrides = MetricsOverrides()
    latency_unit: Literal["ms", "s"] | None = None
    """The unit of the label `le`; null takes the query set's."""
    lookback_s: Annotated[int, Field(ge=2, le=3600)] = DEFAULT_LOOKBACK_S
    """How far back samples are asked for: at least two scrape intervals."""
    staleness_s: Annotated[int, Field(ge=1, le=3600)] = 45
    """Data older than this are no data: more than a scrape interval."""
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0
    """How long one reading may take in all."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        # By value: a file that was written out whole names every key.
        asked = [
            name
            for name in ("queries", "overrides", "latency_unit", "lookback_s", "staleness_s")
            if getattr(self, name) != type(self).model_fields[name].default
        ]
        if self.source == "scrape" and asked:
            raise ValueError(f"`{asked[0]}` needs `source: prometheus`")
        if self.source == "scrape":
            return self
        own = self.overrides
        if self.queries is None and not (own.requests and own.errors):
            raise ValueError(
                "`source: prometheus` needs `queries`, or `overrides` with `requests` and `errors`"
            )
        if own.requests == () or own.errors == ():
            raise ValueError(
                "`requests` and `errors` must be asked for; only `latency` and `watched` may be `[]`"
            )
        if self.queries is None and own.latency and self.latency_unit is None:
            raise ValueError("`overrides.latency` without `queries` needs `latency_unit`: `ms` or `s`")
        if self.staleness_s > self.lookback_s:
            raise ValueError(
                f"`staleness_s: {self.staleness_s}` is more than `lookback_s: {self.lookback_s}`: samples that "
                "old are not even asked for"
            )
        return self


class Approval(_Part):
    """Where a person must agree."""

    before_canary: bool = False
    before_promotion: bool = False
    """After the last step has passed; the canary goes on being watched while the person thinks."""


class Exposure(_Part):
    """The most that users may meet of a candidate before it is promoted; beyond it the canary is rolled back."""

    max_requests: Count | None = None
    max_errors: Count | None = None


_DEFAULT_STEPS = (
    RolloutStep(weight=5, bake_s=120),
    RolloutStep(weight=25, bake_s=180),
    RolloutStep(weight=50, bake_s=180),
    RolloutStep(weight=99, bake_s=60),
)


class Rollout(_Part):
    """The canary: where, in which steps, and what happens when."""

    inference_service: DnsLabel = ""
    """Left out: the model's name."""
    namespace: DnsLabel = "models"
    service_account: DnsLabel = "slipway-models"
    deployment_mode: Literal["Knative", "Standard"] = "Knative"
    """For a model's first deployment; later releases follow what its InferenceService is deployed as."""
    runtime: DnsLabel = "kserve-tritonserver"
    runtime_version: Text | None = None
    """The tag of the Triton image; null takes the serving runtime's own, which is old."""
    resources: Resources = Resources()
    steps: Annotated[tuple[RolloutStep, ...], Field(min_length=1, max_length=20)] = _DEFAULT_STEPS
    window_s: Annotated[int, Field(ge=1, le=3600)] = 10
    """How often the judge looks."""
    max_bake_s: Seconds = 600
    """How long a step may be prolonged while there is too little traffic to judge by."""
    ready_timeout_s: Seconds = 900
    on_inconclusive: Literal["hold", "rollback"] = "rollback"
    lease_s: Annotated[int, Field(ge=15, le=3600)] = 60
    """If nobody renews the canary for so long (Airflow is gone, the metrics are), its guard takes it to weight 0."""
    analysis: Analysis = Analysis()
    exposure: Exposure = Exposure()
    metrics: Metrics = Metrics()
    approval: Approval = Approval()
    on_concurrent_release: Literal["refuse", "queue"] = "queue"
    """A release that starts during another of the same model waits for its turn, or is told to come again."""

    @model_validator(mode="after")
    def _steps_make_sense(self) -> Self:
        weights = [step.weight for step in self.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(weights)):
            raise ValueError(f"the weights of `steps` must rise, but are {weights}")
        shortest, longest = min(step.bake_s for step in self.steps), max(step.bake_s for step in self.steps)
        if shortest < self.window_s:
            raise ValueError(
                f"a step of {shortest} s is shorter than `window_s: {self.window_s}`: nobody would look"
            )
        if longest > self.max_bake_s:
            raise ValueError(f"a step of {longest} s is longer than `max_bake_s: {self.max_bake_s}`")
        return self


class ReleaseSpec(_Part):
    """A whole release file. Only `model` and `source` must be given."""

    model: Annotated[str, AfterValidator(_model_label)]
    description: str = ""
    source: Source
    conversion: Conversion = Conversion()
    serving: Serving = Serving()
    validation: Validation = Validation()
    benchmark: Benchmark = Benchmark()
    rollout: Rollout = Rollout()

    @model_validator(mode="after")
    def _fill_and_check(self) -> Self:
        if not self.rollout.inference_service:
            self.__dict__["rollout"] = self.rollout.filled(inference_service=self.model)
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


def parse_release_spec(text: str, source: str) -> ReleaseSpec:
    """Read a release file's text; `source` is what errors call it.

    Raises SpecError that names file, line and key, and for an unknown key the nearest valid one.
    """
    from include.model_release.spec_errors import explain
    from include.model_release.yaml_source import parse_yaml_mapping

    parsed = parse_yaml_mapping(text, source)
    try:
        return _validate(parsed.data)
    except ValidationError as error:
        raise explain(error, ReleaseSpec, parsed) from error


def load_release_spec(path: Path) -> ReleaseSpec:
    """Read a release file from disk.

    Raises SpecError as `parse_release_spec` does, and when it cannot be read.
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
    return parse_release_spec(text, path.name)


def load_model_spec(releases_dir: Path, model: str) -> ReleaseSpec:
    """Read the release file of `model`.

    Raises UnknownModelError, which lists the known models, and SpecError when the file is wrong or is about
    another model.
    """
    path = release_file(releases_dir, model)
    spec = load_release_spec(path)
    if spec.model != model:
        raise SpecError(
            f"{path.name} is about another model",
            expected=f"`model: {model}`",
            found=f"`model: {spec.model}`",
            remedy="Rename the file or correct the key: they must agree.",
        )
    return spec


def apply_overrides(spec: ReleaseSpec, overrides: Mapping[str, Any], source: str) -> ReleaseSpec:
    """Return `spec` with `overrides` laid over it, checked anew: mappings merge, all else replaces.

    `source` is what a SpecError calls the overrides, for example "the run's parameters".
    """
    from include.model_release.spec_errors import explain
    from include.model_release.yaml_source import YamlSource

    merged = _merged(spec.model_dump(mode="json", exclude_unset=True), overrides)
    try:
        return _validate(merged)
    except ValidationError as error:
        raise explain(error, ReleaseSpec, YamlSource(source, merged, {}, {})) from error


def _validate(data: Mapping[str, Any]) -> ReleaseSpec:
    # Strict JSON mode: lists become tuples, but "5" does not become 5 nor `true` a number.
    return ReleaseSpec.model_validate_json(json.dumps(data))


def _merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in overrides.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def main(arguments: list[str] | None = None) -> int:
    """Print the JSON schema, or check the release files that are given; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m include.model_release.spec", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="release files to check")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a release file")
    options = parser.parse_args(arguments)
    if not options.schema and not options.files:
        parser.error("give release files to check, or --schema")
    if options.schema:
        print(json.dumps(ReleaseSpec.model_json_schema(), indent=2))
    failures = 0
    for path in options.files:
        try:
            spec = load_release_spec(path)
        except SpecError as error:
            failures += 1
            print(error, file=sys.stderr)
        else:
            print(f"{path}: {spec.model}, {len(spec.rollout.steps)} steps")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
