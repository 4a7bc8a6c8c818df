"""A model that users ask all the time, in one of KServe's dialects, and what can be seen of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from benchmarks.chaos.plan import Dialect
from slipway_core.record.events import Event
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.rollout.next_action import Observed, observe
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.lab.models import publish, requests
from slipway_sandbox.lab.serving_stack import Lab
from slipway_sandbox.lab.simulation.evidence import standard_evidence
from slipway_sandbox.load.answers import Answer, AnswerFile
from slipway_sandbox.load.open_load import OpenLoad

NAMESPACE = "models"
RATE_RPS = 60.0
LEASE_S = 30
_ROLLOUT = {
    "steps": [{"weight": 20, "bake_s": 2}, {"weight": 60, "bake_s": 2}],
    "window_s": 1,
    "max_bake_s": 20,
    "ready_timeout_s": 60,
    "lease_s": LEASE_S,
    # A busy machine makes latencies that say nothing; errors are what candidates differ in here.
    "analysis": {
        "error_margin_percent": 5,
        "latency_margin_percent": 900,
        "minimum_candidate_requests": 10,
    },
}

_SERVICES = f"serving.kserve.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices"
_ROUTES = f"gateway.networking.k8s.io/v1/namespaces/{NAMESPACE}/httproutes"
_LEASES = f"coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Served:
    """One model with its users.

    :param s3: a boto3 client of the lab's object store.
    :param releases_dir: where the model's release file is written.
    """

    def __init__(self, lab: Lab, s3: Any, dialect: Dialect, releases_dir: Path) -> None:
        self.model = f"moody-{dialect.lower()}"
        self.dialect = dialect
        self._lab, self._s3, self._bucket = lab, s3, lab.settings.bucket
        rollout = {"deployment_mode": dialect, **_ROLLOUT}
        text = json.dumps({"model": self.model, "source": {}, "rollout": rollout})
        self._spec = parse_release_spec(text, f"{self.model}.yaml")
        (releases_dir / f"{self.model}.yaml").write_text(text, encoding="utf-8")
        self._version = 0

    def deploy(self) -> str:
        """Creates the InferenceService with its first version, a good one; returns its storageUri."""
        _, uri = self.publish(0.0, 0)
        manifest = inference_service_manifest(self._spec, uri, release_id="first", version=1)
        self._ask("POST", _SERVICES, manifest)
        return uri

    def load(self) -> OpenLoad:
        """Its users."""
        settings = self._lab.settings
        output = self._lab.root / f"{self.model}.jsonl"
        self._answers = AnswerFile(output)
        return OpenLoad(
            requests(),
            port=settings.ports.ingress,
            authority=settings.service_host(self.model, NAMESPACE),
            model=self.model,
            rate_rps=RATE_RPS,
            output=output,
            sandbox_root=self._lab.root,
        )

    def publish(self, error_percent: float, seed: int) -> tuple[int, str]:
        """Lays the next version into the bucket, as landed and as published; returns its number and storageUri."""
        self._version += 1
        version, source = self._version, self._spec.source
        incoming = f"incoming/{self.model}/{version}"
        ready = json.dumps({"model": self.model, "version": version, "start": "by_hand"})
        for name in (source.model_file, source.golden_file):
            self._s3.put_object(Bucket=self._bucket, Key=f"{incoming}/{name}", Body=b"")
        self._s3.put_object(Bucket=self._bucket, Key=f"{incoming}/ready.json", Body=ready.encode())
        uri = publish(self._s3, self._bucket, self.model, version, error_percent=error_percent, seed=seed)
        return version, uri

    # --- what can be seen ---

    def look(self) -> Observed:
        """The InferenceService as it is."""
        routes = self._ask("GET", _ROUTES)["items"] if self.dialect == "Standard" else ()
        return observe(self._ask("GET", f"{_SERVICES}/{self.model}"), standard_evidence(routes))

    def is_at_rest(self, uri: str | None = None) -> bool:
        """Whether one revision, of the version asked for, has all users and nothing is under way."""
        observed = self.look()
        return (
            observed.canary_percent is None
            and observed.traffic_current
            and observed.ready
            and observed.alone(observed.latest_created)
            and uri in (None, observed.storage_uri)
        )

    def users_are_safe(self) -> bool:
        """Whether one revision has all users, and no canary is to have any."""
        observed = self.look()
        sharing = sum(share > 0 for share in observed.traffic.values())
        return observed.canary_percent in (None, 0) and observed.traffic_current and sharing == 1

    def candidate(self, before: Observed, uri: str) -> str:
        """What the revision of the candidate is called, `before` being what was there when its release began."""
        if self.dialect == "Standard":
            return backend_name(self.model, predictor_name(uri))
        head, _, number = before.latest_created.rpartition("-")
        return f"{head}-{int(number) + 1:0{len(number)}d}"

    def revisions(self) -> dict[str, int]:
        """How many revisions were made of each predictor that is there, as the emulated controller notes it."""
        if self.dialect == "Knative":
            return {"": int(self.look().latest_created.rpartition("-")[2])}
        notes = self._lab.settings.run_dir / "cluster" / "kserve" / NAMESPACE / f"{self.model}.json"
        workloads = json.loads(notes.read_text(encoding="utf-8"))["predictor"]["workloads"]
        return {one["name"]: one["pods"][-1]["number"] for one in workloads}

    def has_lease(self) -> bool:
        """Whether a lease on it is there."""
        found = self._ask("GET", _LEASES)["items"]
        return any(one["metadata"]["name"].endswith(f"-{self.model}") for one in found)

    def has_lock(self) -> bool:
        """Whether a release holds it."""
        found = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=f"records/{self.model}/active.json")
        return bool(found["KeyCount"])

    def record(self, version: int) -> list[Event]:
        """A version's record."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"records/{self.model}/{version}/0"
        )
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        bodies = [self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read() for key in keys]
        return [Event.from_bytes(body, key) for body, key in zip(bodies, keys, strict=True)]

    def answers(self) -> list[Answer]:
        """What its users were answered since the last call."""
        return self._answers.new_answers()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        settings = self._lab.settings
        headers = {
            "Authorization": f"Bearer {settings.secrets.cluster_token}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{settings.cluster_url}/apis/{path}", data=data, headers=headers, method=method)
        with urlopen(request, timeout=5) as answer:
            return json.load(answer)
