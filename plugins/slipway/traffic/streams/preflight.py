"""Before the first percent: can the answers inside a model's streams be read at all? It blocks."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.release_context import ReleaseContext
from slipway.release_run import ReleaseRun
from slipway.traffic.reconciler import observe_service
from slipway.traffic.streams.requests import (
    StreamedGolden,
    StreamNeed,
    make_asker,
    stream_need,
    streamed_golden,
)
from slipway_core.errors import SlipwayError, StreamsUnreadError, TransientError
from slipway_core.gates.validation.request_options import is_decoupled
from slipway_core.rollout.observation import Observed
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.triton_config.options import Config

log = logging.getLogger(__name__)

# So many golden requests are tried with stable; one good answer shows that the way works.
_TRIES = 3


def require_streams_read(parts: ReleaseContext) -> None:
    """Return where the model is not asked over streams, or its canary can be judged by answers that were read: both
    revisions will have a URL of their own, the golden set makes requests, and stable answers one over the protocol.

    :raises StreamsUnreadError: it cannot; the error names what to do.
    :raises TransientError: the store or the cluster is away.
    """
    release_run, registry = parts.release_run, parts.registry
    need = stream_need(release_run, registry)
    if need is None:
        return
    observed = observe_service(parts.service)
    require_mode_read(release_run.spec, _mode(release_run.spec, observed), need.why)
    try:
        golden = streamed_golden(release_run, registry, need.protocol)
    except TransientError:
        raise
    except SlipwayError as error:
        raise _unread(
            release_run.spec, need.why, error.in_short(), error.remedy or "fix the golden set"
        ) from error
    url = None if observed is None else observed.url
    if url is None:
        raise _unread(
            release_run.spec,
            need.why,
            "an InferenceService whose status names no URL",
            "check that the InferenceService is ready, and start the canary again",
        )
    fault = asyncio.run(_fault_of_stable(need, golden, release_run, IngressHook().endpoint(url)))
    if fault:
        raise _unread(
            release_run.spec,
            need.why,
            f"no answer of the stable version to {_TRIES} golden requests by {need.protocol} at {url}: {fault}",
            "check that the connection `slipway_ingress` names an ingress that accepts this protocol, that the "
            "runtime opens its port (h2c for gRPC), and that `rollout.streaming` has the right `protocol` and a "
            "`timeout_s` long enough for a whole answer",
        )
    log.info("streams are read during the canary: %s; stable has answered a golden request", need.why)


def require_source_read(
    spec: ReleaseSpec, left: Callable[[], Mapping[str, Config]], service: KServeHook
) -> None:
    """Return where nothing that is known on admission says that the streams of the model will not be read.

    :param left: returns the configurations that training has left.
    :raises StreamsUnreadError: the release file or a configuration in ``incoming/`` is of a model that is asked over
        streams, and nobody would read them.
    """
    streaming, why = spec.rollout.streaming, ""
    if streaming.protocol is not None:
        why = f"`rollout.streaming.protocol: {streaming.protocol}`"
    elif spec.serving.decoupled:
        why = "`serving.decoupled: true`"
    elif is_decoupled(
        config
        for name, config in left().items()
        # What the release file says of the model itself stands above training's.
        if name != spec.model or "decoupled" not in spec.serving.model_fields_set
    ):
        why = "its config.pbtxt is decoupled"
    if why:
        require_mode_read(spec, _mode(spec, observe_service(service)), why)


def require_mode_read(spec: ReleaseSpec, mode: str, why: str) -> None:
    """Return where, of a model that is asked over streams, answers can be read in this deployment mode.

    :param why: what says that it is asked over streams.
    :raises StreamsUnreadError: they cannot.
    """
    obstacle = spec.rollout.streams_obstacle(mode)
    if obstacle is not None:
        raise _unread(spec, why, *obstacle)


def _mode(spec: ReleaseSpec, observed: Observed | None) -> str:
    return spec.rollout.deployment_mode if observed is None else observed.dialect


async def _fault_of_stable(
    need: StreamNeed, golden: StreamedGolden, release_run: ReleaseRun, endpoint: Endpoint
) -> str:
    """Return why stable, which has all users still, answers no golden request; "" where it answers one."""
    asker, fault = make_asker(need.protocol, endpoint, release_run, golden.outputs), ""
    try:
        for body in itertools.islice(itertools.cycle(golden.bodies), _TRIES):
            fault = (await asker.ask(body)).fault
            if not fault:
                break
    finally:
        await asker.close()
    return fault


def _unread(spec: ReleaseSpec, why: str, found: str, remedy: str) -> StreamsUnreadError:
    return StreamsUnreadError(
        f"nothing would read the answers inside the streams of {spec.model!r}, which serves streams ({why})",
        expected="golden requests streamed to both revisions during the canary, because no counter of a router or "
        "of Triton shows an error inside a stream",
        found=found,
        remedy=remedy,
    )
