"""Fields of a pod that Knative refuses unless its operator has turned them on (ConfigMap `config-features`).

Knative's webhook refuses the Service that KServe makes, minutes after a release began, and KServe tells it among other
conditions. Read in Knative Serving's `pkg/apis/config/features.go`: each is off by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.rollout.fields import mapping

CONFIG_MAP = ("knative-serving", "config-features")
# The feature, and the key of the release file's `rollout`, by the predictor's field.
_FEATURES = {
    "nodeSelector": ("kubernetes.podspec-nodeselector", "node_selector"),
    "tolerations": ("kubernetes.podspec-tolerations", "tolerations"),
    "affinity": ("kubernetes.podspec-affinity", "affinity"),
    "priorityClassName": ("kubernetes.podspec-priorityclassname", "priority_class"),
    "runtimeClassName": ("kubernetes.podspec-runtimeclassname", "runtime_class"),
}
_ON = frozenset({"enabled", "allowed"})


def features_needed(isvc: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the switches that must be on for an InferenceService, as the ConfigMap has them."""
    predictor = mapping(mapping(isvc.get("spec")).get("predictor"))
    return tuple(f"{feature}: enabled" for field, (feature, _) in _FEATURES.items() if predictor.get(field))


def features_lacking(isvc: Mapping[str, Any], config: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return why Knative would refuse the pods of an InferenceService, each with what to do; () where it would not.

    :param config: the ConfigMap's data; None if it cannot be seen, which not everybody may.
    """
    if config is None:
        return ()
    predictor = mapping(mapping(isvc.get("spec")).get("predictor"))
    return tuple(
        f"Knative refuses `rollout.{key}` here: set `{feature}: enabled` in the ConfigMap {'/'.join(CONFIG_MAP)}."
        for field, (feature, key) in _FEATURES.items()
        if predictor.get(field) and str(config.get(feature, "disabled")).lower() not in _ON
    )
