"""The release file's `rollout.streaming`: models that users ask over streams, and who reads what the answers hold.

An error inside a stream is seen by no counter of a router, and Triton counts it as a success. So the canary of a model
that is asked over streams needs somebody who reads answers: golden requests that are streamed to both revisions, or
metrics of a router that reads them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slipway_core.spec.parts import SpecPart
from slipway_core.spec.rollout.metrics import Metrics
from slipway_core.spec.servers.deployment_modes import deployment_mode, modes_with_stable_url

StreamProtocol = Literal["grpc", "generate_stream"]


class Streaming(SpecPart):
    """How a model that is asked over streams is judged. Of a decoupled model it is known that it is one."""

    protocol: StreamProtocol | None = None
    """How users stream: `grpc` (ModelStreamInfer) or `generate_stream` (HTTP). Default: not at all, or by gRPC where
    the model's configuration, or a member's, is decoupled. Write it where a model that answers single requests too is
    asked over streams, or calls a decoupled one from its code: neither is seen in config.pbtxt."""
    answers_read_by: Literal["probes", "metrics"] = "probes"
    """`probes` streams golden requests to both revisions during every window. `metrics`: you have seen to it that the
    `metrics.overrides` count the errors inside streams (an access log or a filter at the router)."""
    requests_per_s: Annotated[float, Field(gt=0, le=200)] = 4.0
    """In total; half go to the candidate's own URL, half to stable's. Each is a separate stream."""
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    """A stream without its last response within this time is an error."""
    max_request_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    """Golden rows that make a larger request are not streamed."""

    def protocol_of(self, *, is_decoupled: bool) -> StreamProtocol | None:
        """Return how a model is asked over streams; None: it is not."""
        return self.protocol or ("grpc" if is_decoupled else None)


def streams_obstacle(
    streaming: Streaming, metrics: Metrics, mode: str, *, metrics_see_users_only: bool
) -> tuple[str, str] | None:
    """Return why the canary of a model that is asked over streams could not be judged, and what to do; None: it can.

    :param mode: the deployment mode of the InferenceService.
    :param metrics_see_users_only: the release file says that the metrics leave out requests to the revisions' URLs.
    """
    if streaming.answers_read_by == "metrics":
        if metrics.counts_stream_errors:
            return None
        return (
            "`rollout.streaming.answers_read_by: metrics`, and no query that reads answers",
            "name it: `source: prometheus` with `overrides.errors` that counts errors inside streams; or write "
            "`answers_read_by: probes`",
        )
    if not deployment_mode(mode).stable_has_url:
        return (
            f"{mode} mode, in which stable has no URL of its own for streamed golden requests",
            f"deploy the model in {modes_with_stable_url()} mode, where both revisions have one (tag routing); or read "
            "answers at the router, in an access log or a filter, and say so with `rollout.streaming: "
            "{answers_read_by: metrics}`",
        )
    if not (metrics.sees_users_only or metrics_see_users_only):
        return (
            "queries that may count streamed golden requests among users'",
            "see to it that the queries leave out requests to the revisions' own URLs, and say so with "
            "`rollout.golden_replay: {metrics_see_users_only: true}`; docs/canary.md says how",
        )
    return None
