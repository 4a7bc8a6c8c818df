"""The gateway: models answer through it, and what is known of it at weight 0."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar

import aiohttp

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import ANSWER_LIMIT_S, Installation
from slipway.doctor.services import observed_service, service_name
from slipway.hooks.ingress import Endpoint, IngressHook
from slipway_core.doctor.line import Line
from slipway_core.rollout.dialects.standard.gateways import KNOWN
from slipway_core.rollout.observation import Observed

_READY = "/v2/health/ready"


@EXAMINATIONS.register
class GatewayExamination(Examination):
    """Asks each model that is deployed whether it is ready, by its users' way; and tells what is known of weight 0."""

    name: ClassVar[str] = "gateway"
    place: ClassVar[int] = 70
    why: ClassVar[str] = "users come through it, and a rollback is safe when it has taken weight 0"
    limit_s: ClassVar[float] = 60.0

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield two lines for each InferenceService that is deployed."""
        seen = False
        for spec in installation.specs.values():
            observed = observed_service(installation, spec)
            if observed is None:
                continue
            seen = True
            if spec.rollout.protocol == "http":
                yield self._asked(service_name(spec), observed)
            yield from self._weight_0(service_name(spec), observed)
        if not seen:
            yield self.unknown(
                "gateway",
                "no model is deployed that could be asked through it",
                remedy="release a first version",
            )

    def _asked(self, what: str, observed: Observed) -> Line:
        what = f"{what} by its users' way"
        if not observed.url:
            return self.unknown(
                what,
                "its status tells no address",
                remedy=f"kubectl -n {observed.namespace} describe isvc {observed.name}",
            )
        endpoint = IngressHook().endpoint(observed.url)
        found = asyncio.run(_status_of(endpoint))
        if found == "HTTP 200":
            return self.ok(what, f"{_READY} answers HTTP 200")
        return self.failed(
            what,
            f"{_READY} of {endpoint.host}: {found}",
            expected="HTTP 200",
            remedy=f"curl -i -H 'Host: {endpoint.host}' {endpoint.base_url}{_READY}",
        )

    def _weight_0(self, what: str, observed: Observed) -> Iterator[Line]:
        what = f"{what} at weight 0"
        if not observed.gateway_notes:
            yield self.ok(
                what,
                "Knative leads nobody to a revision at percent 0; a rollback counts requests after it all the same",
            )
        for note in observed.gateway_notes:
            if note in KNOWN.values():
                yield self.warning(what, note, remedy="see docs/cluster.md, Gateways and weight 0")
            else:
                yield self.unknown(
                    what,
                    note,
                    remedy="after a rollback `slipway explain MODEL VERSION` tells whether anybody was still led there",
                )


async def _status_of(endpoint: Endpoint) -> str:
    limit = aiohttp.ClientTimeout(total=ANSWER_LIMIT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(f"{endpoint.base_url}{_READY}", headers={"Host": endpoint.host}) as answer,
        ):
            return f"HTTP {answer.status}"
    except TimeoutError:
        return f"no answer within {ANSWER_LIMIT_S:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return type(error).__name__
