"""Whether a release's model is asked over streams, and the golden requests that are streamed to it. It blocks."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from slipway.hooks.ingress import Endpoint
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway.traffic.streams.answer import StreamAsker
from slipway_core.errors import InputMissingError, UserError, VersionDeletedError
from slipway_core.gates.validation.request_options import is_decoupled
from slipway_core.spec.rollout.streaming import StreamProtocol

log = logging.getLogger(__name__)

# As of golden replays: some rows say as much as many.
_ROWS_LIMIT, _BYTES_LIMIT = 256, 32 * 1024 * 1024


@dataclass(frozen=True)
class StreamNeed:
    """How users ask a model over streams.

    :param why: what says so, for people.
    """

    protocol: StreamProtocol
    why: str


@dataclass(frozen=True)
class StreamedGolden:
    """The golden set as requests over streams.

    :param outputs: what an answer must hold: the outputs that validation reads.
    """

    bodies: Sequence[bytes]
    outputs: Sequence[str]


def stream_need(release_run: ReleaseRun, registry: ModelRegistry) -> StreamNeed | None:
    """Return how the model is asked over streams, by the release file or a configuration of either version; None: it is
    not, as far as these tell, or whoever wrote the release file has answers read by metrics.

    :raises TransientError: the store is away.
    :raises UserError: the candidate is not published, or a configuration cannot be read.
    """
    streaming = release_run.spec.rollout.streaming
    if streaming.answers_read_by == "metrics":
        return None
    if streaming.protocol is not None:
        return StreamNeed(streaming.protocol, f"`rollout.streaming.protocol: {streaming.protocol}`")
    decoupled = _decoupled_version(release_run, registry)
    protocol = streaming.protocol_of(is_decoupled=decoupled is not None)
    if protocol is None:
        return None
    return StreamNeed(protocol, f"the configuration of version {decoupled} is decoupled")


def _decoupled_version(release_run: ReleaseRun, registry: ModelRegistry) -> int | None:
    manifest = registry.require(release_run.model, release_run.version)
    if is_decoupled(registry.configs(manifest).values()):
        return release_run.version
    if release_run.stable is None:
        return None
    version = release_run.stable.version
    try:
        configs = registry.configs(registry.require(release_run.model, version))
    except (InputMissingError, VersionDeletedError) as error:
        # Its files are gone; the gate of signatures has held the candidate against what is live.
        log.warning("it is unknown whether stable is decoupled: %s", error.in_short())
        return None
    return version if is_decoupled(configs.values()) else None


def streamed_golden(
    release_run: ReleaseRun, registry: ModelRegistry, protocol: StreamProtocol
) -> StreamedGolden:
    """Return the first rows of the version's golden set as requests, one row each.

    :raises TransientError: the store is away.
    :raises UserError: there is no such version, or its golden set makes no request that may be streamed.
    """
    from slipway.traffic.golden_requests.grpc_body import grpc_body
    from slipway.traffic.streams.generate_streams import generate_body

    manifest = registry.require(release_run.model, release_run.version)
    config = registry.configs(manifest)[release_run.model]
    golden = load_golden_set(registry, manifest, release_run.spec, config)
    limit, inputs = release_run.spec.rollout.streaming.max_request_bytes, manifest.signature.inputs
    bodies: list[bytes] = []
    size, largest = 0, 0
    for _, row in itertools.islice(golden.batches(1), _ROWS_LIMIT):
        is_grpc = protocol == "grpc"
        body = grpc_body(release_run.model, inputs, row) if is_grpc else generate_body(inputs, row)
        largest = max(largest, len(body))
        if len(body) <= limit and size + len(body) <= _BYTES_LIMIT:
            bodies.append(body)
            size += len(body)
    if not bodies:
        raise UserError(
            f"no golden request of {release_run.model!r} version {release_run.version} can be streamed",
            expected=f"rows whose requests have at most {limit} bytes",
            found=f"up to {largest} bytes for one row" if largest else "a golden set without rows",
            remedy="raise `rollout.streaming.max_request_bytes` in the release file, or use a golden set with rows",
        )
    served = [output.name for output in manifest.signature.outputs]
    read = [name for name in release_run.spec.validation.outputs if name in served]
    return StreamedGolden(tuple(bodies), tuple(read or served))


def make_asker(
    protocol: StreamProtocol, endpoint: Endpoint, release_run: ReleaseRun, outputs: Sequence[str]
) -> StreamAsker:
    """Return what streams requests to one revision; to be made in the event loop that asks.

    :param outputs: what an answer must hold.
    """
    from slipway.traffic.streams.generate_streams import GenerateStreams
    from slipway.traffic.streams.grpc_streams import GrpcStreams

    timeout_s = release_run.spec.rollout.streaming.timeout_s
    if protocol == "grpc":
        return GrpcStreams(endpoint, outputs, timeout_s)
    return GenerateStreams(endpoint, release_run.model, outputs, timeout_s)
