"""The candidate before users meet it: up, at an address of its own, with no share of the traffic."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from slipway.hooks.ingress import Endpoint, IngressHook
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.traffic.live_service import LiveService
from slipway.traffic.raise_permit import RaisePermit
from slipway_core.record.kinds import WeightIntended, WeightObserved
from slipway_core.rollout.next_action import ShowCandidate
from slipway_core.rollout.observation import Observed

if TYPE_CHECKING:
    from airflow.sdk import Context


class ShowCandidateOperator(ReleaseOperator):
    """Brings the candidate up at 0 % and says where it can be tried; nothing where the release asks for no preview.

    :param generation: the InferenceService's generation when the release was armed (templated).
    :param ingress_conn_id: by which ingress the services' hosts are reached.
    :returns: ``candidate_url`` and ``stable_url``, addresses that lead to that version alone ("": there is none), and
        ``generation``, at which the canary is decided on (None: nothing is live yet).
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "generation")

    def __init__(
        self,
        *,
        generation: str = "",
        ingress_conn_id: str = IngressHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.generation = generation
        self.ingress_conn_id = ingress_conn_id

    def run(self, context: Context) -> dict[str, Any]:
        """Open the preview; a task that is run again finds it open."""
        release_run = self.release_run
        armed_at = int(self.generation) if self.generation.isdecimal() else None
        if release_run.spec.rollout.preview is None or release_run.stable is None:
            why = (
                "the release file asks for none"
                if release_run.stable
                else "no version could serve in the meantime"
            )
            self.log.info("no preview: %s", why)
            return {"candidate_url": "", "stable_url": "", "generation": armed_at}
        with recorded_stage(self.record, "preview"):
            permit = RaisePermit(self.store, release_run, self.parts.outbox)
            permit.require(0)
            self.record.append(
                WeightIntended(
                    weight=0,
                    storage_uri=release_run.storage_uri,
                    stable_storage_uri=release_run.stable.storage_uri,
                )
            )
            goal = ShowCandidate(
                release_run.storage_uri,
                release_id=release_run.release_id,
                version=release_run.version,
                force=release_run.force,
                generation=armed_at,
            )
            observed = LiveService(self.parts).reach(goal, permit=permit.to(0)).observed
            assert observed is not None  # noqa: S101  Done is only said of what exists
            self.record.append(
                WeightObserved(weight=0, traffic=dict(observed.traffic), candidate_url=observed.candidate_url)
            )
            self._tell_testers(observed)
        return {
            "candidate_url": observed.candidate_url,
            # At 0 % the service's own host is the stable version.
            "stable_url": observed.stable_url or observed.url or "",
            "generation": observed.generation,
        }

    def _tell_testers(self, observed: Observed) -> None:
        """Log how the candidate is asked, from where this task asks."""
        url = observed.candidate_url
        self.log.info("the candidate can be tested at %s; no users are sent there", url)
        endpoint, model = IngressHook(self.ingress_conn_id).endpoint(url), self.release_run.model
        is_grpc = self.release_run.spec.rollout.protocol == "grpc"
        self.log.info(grpcurl_line(endpoint, model) if is_grpc else curl_line(endpoint, model))


def curl_line(endpoint: Endpoint, model: str) -> str:
    """Return the command that asks a model's metadata at an endpoint."""
    needs_host = urlsplit(endpoint.base_url).netloc != endpoint.host
    host = f"-H 'Host: {endpoint.host}' " if needs_host else ""
    return f"curl {host}{endpoint.base_url}/v2/models/{model}"


def grpcurl_line(endpoint: Endpoint, model: str) -> str:
    """Return the command that asks a model's metadata at an endpoint over gRPC, with Triton's own .proto files."""
    parts = urlsplit(endpoint.base_url)
    is_tls = parts.scheme == "https"
    target = f"{parts.hostname}:{parts.port or (443 if is_tls else 80)}"
    plain = "" if is_tls else "-plaintext "
    body = json.dumps({"name": model})
    return (
        f"grpcurl {plain}-proto grpc_service.proto -authority {endpoint.host} -d {shlex.quote(body)} {target} "
        "inference.GRPCInferenceService/ModelMetadata"
    )
