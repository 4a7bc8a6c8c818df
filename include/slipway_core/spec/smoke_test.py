"""The release file's `smoke_test`: a version on its own Triton, before any server that others use loads it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slipway_core.spec.parts import Count, ImageReference, Milliseconds, Seconds
from slipway_core.spec.pods.settings import PodSettings
from slipway_core.spec.validation import Policy

LONGEST_SMOKE_TEST_S = 12 * 3600


class SmokeTest(PodSettings):
    """The pod that starts its own tritonserver, and what the version must bear there.

    As a policy, `fail` refuses the version, `warn` is only reported, `off` skips the check. A load or a warm-up that
    fails, and a golden row without an answer, always refuse the version.
    """

    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_SMOKE_TEST_S)] = 600
    """Limit for the whole test; each load may take `serving.load_timeout_s` of it."""
    image: ImageReference = "slipway/smoke-test:0.1.0"
    """Its base is the servers' own image: it must hold the backend, and the TensorRT, that the model needs."""
    loads: Annotated[int, Field(ge=1, le=100)] = 3
    """How often the version is loaded, each time on a new server: a warm-up may fail now and then."""
    requests: Count = 1000
    """How many golden requests are sent while the server's memory is watched."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """How many are sent at once."""
    request_timeout_s: Seconds = 10
    """Limit of one answer, to a boundary input too. A slow model has more: 10 times what its own single answers take,
    for each row in front of it, up to 120 s. What is not answered by then is `inconclusive`.
    """
    memory_timeout_s: Seconds = 60
    """The requests end then, whatever their number."""
    first_request: Policy = "warn"
    """The first answer after a load, in the median of the loads, takes no longer than steady ones do."""
    first_request_ratio_max: Annotated[float, Field(ge=1)] = 10.0
    """How many times the median of steady answers it may take."""
    first_request_floor_ms: Milliseconds = 200.0
    """A first answer below this is fast enough, whatever the ratio."""
    instances: Policy = "fail"
    """Every instance answers a golden row alike, within the tolerances of `validation.health`."""
    memory_growth: Policy = "fail"
    """The memory of the server does not grow from request to request."""
    memory_growth_mib_max: Annotated[float, Field(gt=0)] = 4.0
    """In MiB per 1000 requests."""
    gpu_memory: Policy = "fail"
    """The version fits its share of the GPU's memory; checked if `gpu_memory_mib_max` is given."""
    gpu_memory_mib_max: Annotated[int, Field(ge=1)] | None = None
    """How much more GPU memory may be in use than before the load."""
    robustness: Policy = "fail"
    """Boundary inputs get an answer or an error, the server keeps running, and a golden row is answered as before."""
    on_inconclusive: Literal["warn", "refuse"] = "warn"
    """What follows if a check is inconclusive. `refuse`: stage and release end as `inconclusive`."""
