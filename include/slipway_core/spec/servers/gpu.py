"""Whether a model needs a GPU where it is served, and what follows for its predictor and its smoke test."""

from __future__ import annotations

from slipway_core.spec.conversion.conversion import Conversion
from slipway_core.spec.pods.placement import PLACEMENT_KEYS, Placement
from slipway_core.spec.pods.resources import Resources
from slipway_core.spec.servers.predictor import Predictor
from slipway_core.spec.serving.serving import Serving
from slipway_core.spec.smoke_test import SmokeTest

_ENGINE_PLATFORMS = ("tensorrt_plan", "tensorrt_llm")


def needs_gpu(conversion: Conversion, serving: Serving) -> bool:
    """Whether the release file says that the model's server has a GPU; a config.pbtxt of training is not read."""
    tuned = serving.optimization
    return (
        conversion.needs_gpu
        or serving.platform in _ENGINE_PLATFORMS
        or serving.hardware is not None
        or any(group.kind == "gpu" for group in serving.instances or ())
        or (tuned is not None and bool(tuned.gpu_accelerators or tuned.cuda))
    )


def resources_served(predictor: Predictor, conversion: Conversion, serving: Serving) -> Resources:
    """Return what the servers get: a GPU for a model that needs one, unless the file says what they have.

    An engine is served on as many GPUs as it was built for, of the same kind of device.

    :raises ValueError: the file gives an engine fewer.
    """
    if not needs_gpu(conversion, serving):
        return predictor.resources
    asked = predictor.resources
    memory = conversion.memory_served
    if not conversion.needs_gpu:
        return asked.unless_said(gpu=max(1, asked.gpu), memory=memory)
    built = conversion.resources
    found = asked.unless_said(
        gpu=max(asked.gpu, conversion.gpus), gpu_resource=built.gpu_resource, memory=memory
    )
    if found.gpu < conversion.gpus:
        raise ValueError(
            f"`rollout.resources.gpu: {found.gpu}` is too few: engines of `conversion.target: {conversion.target}` are "
            f"served on {conversion.gpus}; leave the key out, or correct it"
        )
    return found


def where_it_is_tried(
    test: SmokeTest, conversion: Conversion, serving: Serving, predictor: Predictor
) -> SmokeTest:
    """Return the smoke test on a node with a GPU for a model that needs one, as far as the file does not say where.

    What one pod of a release may be given, the next may too: an engine is tried where it was built, with what it was
    built with. Any other model is tried on such a node as its servers have, with what these ask for, and one GPU.
    """
    if not needs_gpu(conversion, serving):
        return test
    near: Placement
    if conversion.needs_gpu:
        near, like = conversion, dict(conversion.resources)
        kept = ("startup_timeout_s", "shm_size", *PLACEMENT_KEYS)
    else:
        near, like = predictor, {**dict(predictor.resources), "gpu": 1}
        kept = ("node_selector", "tolerations", "affinity", "runtime_class")
    wanted: dict[str, object] = {name: getattr(near, name) for name in kept}
    if conversion.smoke_test_image is not None:
        # All of the version is downloaded into the pod's scratch volume.
        wanted |= {"image": conversion.smoke_test_image}
        if test.resources.ephemeral_storage is None:
            wanted |= {"scratch_size": conversion.disk_limit}
    unsaid = {name: value for name, value in wanted.items() if name not in test.model_fields_set}
    return test.filled(**unsaid, resources=test.resources.unless_said(**like))
