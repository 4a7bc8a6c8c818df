"""Contradictions inside a configuration, and between it and the model: each names its field."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from slipway_core.errors import ModelInvalidError
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.triton_config.case import Case, Contradiction, EngineProfile
from slipway_core.triton_config.checks.batch_tensors import batch_contradictions
from slipway_core.triton_config.checks.engine import profile_contradictions
from slipway_core.triton_config.checks.ensembles import ensemble_contradictions
from slipway_core.triton_config.checks.sequences import sequence_contradictions
from slipway_core.triton_config.checks.shapes import shape_contradictions
from slipway_core.triton_config.checks.tensors import (
    tensor_contradictions,
    unnamed_contradictions,
    warmup_contradictions,
)
from slipway_core.triton_config.files import file_contradictions

__all__ = ["Contradiction", "EngineProfile", "contradictions", "require_consistent", "require_named"]

_CHOICES = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
# Of how many contradictions beside the first an error tells.
_SHOWN = 10
_GPU_KINDS = {"KIND_GPU", "KIND_AUTO", None}


def contradictions(
    config: Mapping[str, Any],
    *,
    signature: ModelSignature | None = None,
    profiles: Sequence[EngineProfile] = (),
    version: int | None = None,
    files: Collection[str] = (),
    overridable: Collection[TensorSpec] = (),
) -> list[Contradiction]:
    """Return what does not fit together in `config`, and with the model and engine where they are given.

    :param signature: the model file's own, with the batch dimension.
    :param profiles: the engine's optimisation profiles.
    :param files: the names of what is published in the version's folder.
    :param overridable: the model's initializers that a request may replace.
    """
    case = Case(config, signature, profiles, version, files, overridable)
    return [found for check in _CHECKS for found in check(case)]


def require_consistent(
    config: Mapping[str, Any],
    *,
    signature: ModelSignature | None = None,
    profiles: Sequence[EngineProfile] = (),
    version: int | None = None,
    files: Collection[str] = (),
    overridable: Collection[TensorSpec] = (),
) -> None:
    """Raise ModelInvalidError for the first of `contradictions`; some of the others follow in its `found`."""
    known: dict[str, Any] = {"signature": signature, "profiles": profiles, "version": version}
    _refuse(config, contradictions(config, **known, files=files, overridable=overridable))


def require_named(config: Mapping[str, Any]) -> None:
    """Raise ModelInvalidError where a tensor, control or state has no name, or two tensors have one name."""
    _refuse(config, list(unnamed_contradictions(Case(config, None, (), None))))


def _refuse(config: Mapping[str, Any], found: Sequence[Contradiction]) -> None:
    if not found:
        return
    first, others = found[0], found[1:]
    also = "".join(f"; also `{other.field}` {other.what}" for other in others[:_SHOWN])
    if len(others) > _SHOWN:
        also += f"; and {len(others) - _SHOWN} more"
    raise ModelInvalidError(
        f"config.pbtxt of {config.get('name') or 'the model'}: `{first.field}` {first.what}",
        expected=first.expected,
        found=first.found + also,
        remedy=first.remedy,
    )


def _scheduling(case: Case) -> Iterator[Contradiction]:
    chosen = [name for name in _CHOICES if name in case.config]
    if len(chosen) > 1:
        yield Contradiction(
            chosen[0],
            f"excludes `{chosen[1]}`",
            "one way to schedule requests",
            " and ".join(chosen),
            f"Write `{chosen[0]}: null` in the release file's `serving`, or remove one from config.pbtxt.",
        )
    if case.max_batch_size < 0:
        yield Contradiction(
            "max_batch_size", "is below 0", "a number from 0", str(case.max_batch_size), "Correct it."
        )


def _preferred(case: Case) -> Iterator[Contradiction]:
    places = {
        "dynamic_batching": case.message("dynamic_batching"),
        "sequence_batching.oldest": case.message("sequence_batching").get("oldest") or {},
    }
    for place, message in places.items():
        for size in message.get("preferred_batch_size") or ():
            if not 1 <= int(size) <= case.max_batch_size:
                yield Contradiction(
                    f"{place}.preferred_batch_size",
                    "goes above `max_batch_size`" if int(size) > 0 else "is not a batch size",
                    f"sizes from 1 to {case.max_batch_size}"
                    if case.max_batch_size
                    else "none without batches",
                    str(size),
                    "Take the size out, or raise `serving.max_batch_size`.",
                )


def _priorities(case: Case) -> Iterator[Contradiction]:
    batching = case.message("dynamic_batching")
    levels, default = (int(batching.get(name) or 0) for name in ("priority_levels", "default_priority_level"))
    if levels and not 1 <= default <= levels:
        yield Contradiction(
            "dynamic_batching.default_priority_level",
            "is not a priority level",
            f"a level from 1 to {levels}",
            str(default),
            "Set `default_priority_level`.",
        )
    # Without levels Triton looks at no policy, whatever its level: a server's own dump holds an empty one.
    for level in (batching.get("priority_queue_policy") or ()) if levels else ():
        if not 1 <= int(level) <= levels:
            yield Contradiction(
                f"dynamic_batching.priority_queue_policy[{level}]",
                "is for a level that does not exist",
                f"a level from 1 to {levels}",
                str(level),
                "Correct the level, or raise `priority_levels`.",
            )
    if batching.get("preserve_ordering"):
        yield from _ordered(batching, levels)


def _ordered(batching: Mapping[str, Any], levels: int) -> Iterator[Contradiction]:
    """Yield what would let one request overtake another."""
    field, remedy = (
        "dynamic_batching.preserve_ordering",
        "Turn one of the two off in the release file's `serving`.",
    )
    if levels > 1:
        yield Contradiction(
            field, "does not go with priorities", "one priority level", f"priority_levels {levels}", remedy
        )
    policies = [batching.get("default_queue_policy"), *(batching.get("priority_queue_policy") or {}).values()]
    if any(
        policy
        and policy.get("timeout_action") == "DELAY"
        and int(policy.get("default_timeout_microseconds") or 0)
        for policy in policies
    ):
        yield Contradiction(
            field, "does not go with requests that are delayed", "REJECT", "timeout_action DELAY", remedy
        )


def _responses(case: Case) -> Iterator[Contradiction]:
    cached = case.message("response_cache").get("enable")
    if cached and case.message("model_transaction_policy").get("decoupled"):
        yield Contradiction(
            "response_cache",
            "does not go with a decoupled model",
            "one response to each request",
            "model_transaction_policy.decoupled: true",
            "Turn one of the two off in the release file's `serving`.",
        )
    if cached and "sequence_batching" in case.config:
        yield Contradiction(
            "response_cache",
            "does not go with sequences",
            "responses that hang on the request alone",
            "sequence_batching",
            "Turn the cache off: it would answer from another sequence.",
        )


def _instances(case: Case) -> Iterator[Contradiction]:
    for index, group in enumerate(case.entries("instance_group")):
        place, kind = f"instance_group[{index}]", group.get("kind") or "KIND_AUTO"
        if kind == "KIND_CPU" and _is_engine(case.config):
            yield Contradiction(
                f"{place}.kind",
                "does not go with an engine",
                "KIND_GPU",
                kind,
                "Write `instances: [{kind: gpu}]`.",
            )
        if group.get("gpus") and kind not in ("KIND_GPU", "KIND_AUTO"):
            yield Contradiction(
                f"{place}.gpus", "needs `kind: KIND_GPU`", "KIND_GPU", kind, "Correct `instances`."
            )
        yield from _foreign_profile(case, place, group)
        stocks: dict[str, bool] = {}
        for resource in (group.get("rate_limiter") or {}).get("resources") or ():
            shared = bool(resource.get("global"))
            if stocks.setdefault(str(resource.get("name")), shared) != shared:
                yield Contradiction(
                    f"{place}.rate_limiter.resources",
                    f"has `{resource.get('name')}` both global and for each device",
                    "one of the two",
                    "both",
                    "Give the two resources different names.",
                )
        for profile in group.get("profile") or ():
            if case.profiles and not (str(profile).isdecimal() and int(profile) < len(case.profiles)):
                yield Contradiction(
                    f"{place}.profile",
                    "names an optimisation profile that the engine lacks",
                    f"a number from 0 to {len(case.profiles) - 1}",
                    str(profile),
                    "Correct `profiles` of the instances, or build the engine with one more profile.",
                )


def _foreign_profile(case: Case, place: str, group: Mapping[str, Any]) -> Iterator[Contradiction]:
    named = [str(profile) for profile in group.get("profile") or ()]
    if named and not _is_engine(case.config):
        yield Contradiction(
            f"{place}.profile",
            "is for TensorRT alone",
            "`platform: tensorrt_plan`",
            str(case.config.get("platform") or case.config.get("backend") or "none"),
            "Leave it out.",
        )
    elif not case.profiles and not all(profile.isdecimal() for profile in named):
        yield Contradiction(
            f"{place}.profile", "is not a number", "a number from 0", ", ".join(named), "Correct `profiles`."
        )


def _is_engine(config: Mapping[str, Any]) -> bool:
    return config.get("backend") == "tensorrt" or config.get("platform") == "tensorrt_plan"


def _accelerated(case: Case) -> Iterator[Contradiction]:
    kinds = {group.get("kind") for group in case.entries("instance_group")} or {None}
    if kinds & _GPU_KINDS:
        return
    optimization = case.message("optimization")
    flags = {
        "optimization.cuda.graphs": (optimization.get("cuda") or {}).get("graphs"),
        "optimization.execution_accelerators.gpu_execution_accelerator": (
            optimization.get("execution_accelerators") or {}
        ).get("gpu_execution_accelerator"),
    }
    for field, value in flags.items():
        if value:
            yield Contradiction(
                field,
                "does nothing without a GPU",
                "an instance of kind gpu",
                ", ".join(sorted(str(kind) for kind in kinds)),
                "Take it out, or put instances on a GPU.",
            )


def _metrics(case: Case) -> Iterator[Contradiction]:
    for index, control in enumerate(case.message("model_metrics").get("metric_control") or ()):
        place = f"model_metrics.metric_control[{index}]"
        for field, below in (("metric_identifier", "family"), ("histogram_options", "buckets")):
            if not (control.get(field) or {}).get(below):
                yield Contradiction(
                    f"{place}.{field}.{below}", "is missing", f"`{below}`", "none", "Write it."
                )


def _versions(case: Case) -> Iterator[Contradiction]:
    policy = case.message("version_policy")
    served = (policy.get("specific") or {}).get("versions")
    if (
        "specific" in policy
        and case.version is not None
        and case.version not in [int(v) for v in served or ()]
    ):
        yield Contradiction(
            "version_policy.specific",
            "leaves out the version that is released",
            str(case.version),
            str(list(served or ())),
            "Leave `version_policy` to the release.",
        )
    if "latest" in policy and int((policy["latest"] or {}).get("num_versions") or 0) < 1:
        yield Contradiction(
            "version_policy.latest.num_versions", "serves no version", "1 or more", "0", "Set a number."
        )


_CHECKS: tuple[Callable[[Case], Iterator[Contradiction]], ...] = (
    unnamed_contradictions,
    file_contradictions,
    _scheduling,
    profile_contradictions,
    _preferred,
    _priorities,
    _responses,
    _instances,
    _accelerated,
    _versions,
    _metrics,
    shape_contradictions,
    batch_contradictions,
    sequence_contradictions,
    ensemble_contradictions,
    tensor_contradictions,
    warmup_contradictions,
)
