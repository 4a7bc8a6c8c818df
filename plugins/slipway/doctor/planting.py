"""The InferenceService of doctor's own: deployed as a release file deploys, and taken away again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from slipway.doctor.installation import Installation
from slipway.doctor.planted_model import MODEL, repository_files, repository_uri
from slipway.hooks.inference_service import KServeHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import ForeignChangeError, SlipwayError, TimedOutError
from slipway_core.rollout.actions import FirstDeploy
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.observation import Observed
from slipway_core.spec.release_file import ReleaseSpec, release_spec_of

READY_LIMIT_S = 240.0
_GONE_LIMIT_S, _POLL_S = 60.0, 0.5
# What of a release file says where and how its servers run, and who counts their requests.
_KEPT = (
    *("namespace", "deployment_mode", "runtime", "runtime_version", "service_account", "metrics"),
    *("node_selector", "tolerations", "affinity", "priority_class", "runtime_class", "image_pull_secrets"),
)


def planted_spec(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a release file of doctor's own, whose servers and metrics are those of another one."""
    rollout = spec.rollout.model_dump(mode="json", exclude_unset=True)
    kept: dict[str, Any] = {key: rollout[key] for key in _KEPT if key in rollout}
    return release_spec_of(
        {"model": MODEL, "source": {"format": "onnx"}, "rollout": {**kept, "resources": {"gpu": 0}}},
        "doctor's own release file",
    )


@contextmanager
def planted(installation: Installation, spec: ReleaseSpec, left: list[str]) -> Iterator[Observed]:
    """Deploy the model while the block runs; its InferenceService and its files are gone afterwards.

    :param spec: of `planted_spec`.
    :param left: is given what could not be removed, and why.
    :raises ForeignChangeError: somebody else has an InferenceService of that name.
    :raises SlipwayError: it does not come up.
    """
    store = installation.store()
    hook = KServeHook(spec.rollout.inference_service, spec.rollout.namespace, installation.kubernetes_conn_id)
    _remove(hook)
    try:
        for key, content in repository_files().items():
            store.write(key, content)
        goal = FirstDeploy(inference_service_manifest(spec, repository_uri(store.bucket)))
        reached = reconcile(hook, goal, timeout_s=READY_LIMIT_S)
        if reached.observed is None:
            raise TimedOutError(f"the InferenceService {hook.namespace}/{hook.name} is not there")
        yield reached.observed
    finally:
        left += _tidied(hook, store)


def _remove(hook: KServeHook) -> None:
    """Remove what an earlier examination has left.

    :raises ForeignChangeError: it is not doctor's.
    :raises TimedOutError: it does not go.
    """
    until = time.monotonic() + _GONE_LIMIT_S
    while (found := hook.get()) is not None:
        metadata = found["metadata"]
        if metadata.get("labels", {}).get("slipway.dev/model") != MODEL:
            raise ForeignChangeError(
                f"the InferenceService {hook.namespace}/{hook.name} is not doctor's",
                expected=f"the label slipway.dev/model: {MODEL}",
                remedy=f"rename it: doctor plants a model of the name {MODEL}",
            )
        if not metadata.get("deletionTimestamp"):
            hook.delete(metadata["uid"], metadata["resourceVersion"])
        if time.monotonic() > until:
            raise TimedOutError(f"the InferenceService {hook.namespace}/{hook.name} does not go")
        time.sleep(_POLL_S)


def _tidied(hook: KServeHook, store: ModelStoreHook) -> Iterator[str]:
    """Remove all of it; yield what is left, and why."""
    try:
        _remove(hook)
    except SlipwayError as error:
        yield f"the InferenceService {hook.namespace}/{hook.name}: {error.in_short()}"
    try:
        for key in repository_files():
            store.delete(key)
    except SlipwayError as error:
        yield f"objects of {MODEL} in the bucket: {error.in_short()}"
