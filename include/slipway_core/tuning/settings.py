"""What is searched: settings of one model's configuration, and the values that each may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from slipway_core.errors import UserError
from slipway_core.spec.tuning import TuningSearch
from slipway_core.triton_config.ensemble import is_ensemble
from slipway_core.triton_config.options import Config, laid_over
from slipway_core.written_numbers import counted

_DELAY, _PREFERRED = "max_queue_delay_microseconds", "preferred_batch_size"
PRECISION_LEFT_OUT = (
    "a published version has one precision for each kind of GPU; `conversion.variants` with `choose: fastest` "
    "compares them before it is published"
)


class Setting(BaseModel):
    """One point of the search.

    :param max_queue_delay_us: how long a request may wait for a batch; None: no dynamic batching.
    :param preferred_batch_sizes: in ascending order; empty: none is preferred.
    :param instances: how many, for each GPU where the group names some; None: as published.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_queue_delay_us: int | None = None
    preferred_batch_sizes: tuple[int, ...] = ()
    instances: int | None = None

    def label(self) -> str:
        """Return the setting in words."""
        words = ["no dynamic batching"]
        if self.max_queue_delay_us is not None:
            words = [f"batching with at most {self.max_queue_delay_us} µs of delay"]
            if self.preferred_batch_sizes:
                words.append(f"preferred sizes {', '.join(map(str, self.preferred_batch_sizes))}")
        if self.instances is not None:
            words.append(counted(self.instances, "instance"))
        return ", ".join(words)

    @property
    def simplicity(self) -> tuple[int, int, int]:
        """What comes first among settings that are alike fast: fewer copies, less delay, fewer words."""
        delay = -1 if self.max_queue_delay_us is None else self.max_queue_delay_us
        return self.instances or 0, delay, len(self.preferred_batch_sizes)


class Space(BaseModel):
    """All settings that may be tried, by the values of their parts, and what is not searched with the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    without_batching: bool
    max_queue_delays_us: tuple[int, ...]
    preferred_batch_sizes: tuple[tuple[int, ...], ...]
    instances: tuple[int | None, ...]
    left_out: dict[str, str] = {}

    def settings(self) -> Iterator[Setting]:
        """Yield each setting once."""
        for instances in self.instances:
            if self.without_batching:
                yield Setting(instances=instances)
            for delay in self.max_queue_delays_us:
                for sizes in self.preferred_batch_sizes:
                    yield Setting(max_queue_delay_us=delay, preferred_batch_sizes=sizes, instances=instances)


def space_of(search: TuningSearch, config: Mapping[str, Any]) -> Space:
    """Return what of the release file's lists can be searched for a model with this configuration."""
    left_out = {"precision": PRECISION_LEFT_OUT}
    limit = int(config.get("max_batch_size") or 0)
    delays, preferred = sorted(set(search.max_queue_delays_us)), _fitting(search.preferred_batch_sizes, limit)
    without = search.without_batching or not delays
    batching_out = _no_batching(config, limit)
    if batching_out:
        left_out["dynamic batching"] = batching_out
        delays, without = [], True
    instances: tuple[int | None, ...] = tuple(sorted(set(search.instances)))
    if len(config.get("instance_group") or ()) > 1:
        left_out["instances"] = (
            "the configuration has several groups of instances, and one number does not say which"
        )
        instances = (None,)
    return Space(
        without_batching=without,
        max_queue_delays_us=tuple(delays),
        preferred_batch_sizes=preferred,
        instances=instances,
        left_out=left_out,
    )


def triton_defaults(config: Mapping[str, Any]) -> Setting:
    """Return what a search begins with: no dynamic batching, and one instance where the configuration names a number.

    Where it names none, Triton chooses: two for ONNX Runtime and TensorFlow on CPUs, else one (Triton's core,
    `SetDefaultInstanceCount`; a server tells it in the model's configuration).
    """
    return Setting(instances=None if _instances(config) is None else 1)


def present_setting(config: Mapping[str, Any]) -> Setting:
    """Return the setting of a published configuration."""
    batching = config.get("dynamic_batching")
    if batching is None:
        return Setting(instances=_instances(config))
    return Setting(
        max_queue_delay_us=int(batching.get(_DELAY) or 0),
        preferred_batch_sizes=tuple(sorted({int(size) for size in batching.get(_PREFERRED) or ()})),
        instances=_instances(config),
    )


def config_with(config: Mapping[str, Any], setting: Setting) -> Config:
    """Return the whole configuration with a setting; all else stays, the other options of batching too."""
    batching: Mapping[str, Any] | None = None
    if setting.max_queue_delay_us is not None:
        batching = {_DELAY: setting.max_queue_delay_us, _PREFERRED: list(setting.preferred_batch_sizes)}
    changed = laid_over(config, {"dynamic_batching": batching})
    if setting.instances is not None:
        (group,) = changed.get("instance_group") or [{}]
        changed["instance_group"] = [{**group, "count": setting.instances}]
    return changed


def require_tunable(configs: Mapping[str, Mapping[str, Any]], model: str) -> Mapping[str, Any]:
    """Return the configuration of a version that can be tuned: of a model without members.

    :raises UserError: it is an ensemble, or calls other models.
    """
    if len(configs) == 1 and not is_ensemble(configs[model]):
        return configs[model]
    raise UserError(
        f"{model!r} is made of several models, and its tuning is that of each of them",
        expected="a model that calls no others",
        found=", ".join(sorted(configs)),
        remedy="tune the members as separate models, and write the result into their config.pbtxt",
    )


def _instances(config: Mapping[str, Any]) -> int | None:
    """Return the number that the one group of instances has; None: it has none, or there are several groups."""
    groups: Sequence[Mapping[str, Any]] = config.get("instance_group") or ()
    return (int(groups[0].get("count") or 0) or None) if len(groups) == 1 else None


def _fitting(wanted: tuple[tuple[int, ...], ...], limit: int) -> tuple[tuple[int, ...], ...]:
    fitting = (tuple(sorted(set(sizes))) for sizes in wanted if all(size <= limit for size in sizes))
    return tuple(dict.fromkeys(fitting)) or ((),)


def _no_batching(config: Mapping[str, Any], limit: int) -> str:
    """Return why the model cannot have dynamic batching; "" if it can."""
    if not limit:
        return "`max_batch_size` is 0: the model takes no batch"
    if "sequence_batching" in config:
        return "the model has `sequence_batching`, which takes its place"
    return ""
