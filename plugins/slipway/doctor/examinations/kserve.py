"""KServe: it is there, in a version and a mode that can split traffic, and its services can have a canary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway.doctor.services import observed_service, service_name
from slipway_core.doctor.kserve import CONFIG_MAP, config_findings, mode_finding
from slipway_core.doctor.line import Line
from slipway_core.rollout.dialects.registry import dialect_named, preflight
from slipway_core.rollout.inference_service import inference_service_manifest
from slipway_core.spec.release_file import ReleaseSpec
from slipway_kubernetes.client import KubernetesObjects


@EXAMINATIONS.register
class KServeExamination(Examination):
    """Reads KServe's ConfigMap and the InferenceServices of the release files, as each release's preflight does."""

    name: ClassVar[str] = "kserve"
    place: ClassVar[int] = 60
    why: ClassVar[str] = "a release is refused by its preflight, or its canary gets nobody"
    limit_s: ClassVar[float] = 60.0

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield lines for KServe's configuration, then one for each release file."""
        cluster, specs = installation.cluster(), installation.specs
        config = cluster.read_config_map(*CONFIG_MAP)
        modes = frozenset(spec.rollout.deployment_mode for spec in specs.values())
        for finding in config_findings(config, modes):
            yield self.of_finding(finding)
        yield self.of_finding(mode_finding(config, modes))
        for spec in specs.values():
            yield from self._service(installation, cluster, spec)

    def _service(
        self, installation: Installation, cluster: KubernetesObjects, spec: ReleaseSpec
    ) -> Iterator[Line]:
        what = service_name(spec)
        observed = observed_service(installation, spec)
        if observed is None:
            dialect = dialect_named(spec.rollout.deployment_mode)
            manifest = inference_service_manifest(spec, "s3://a-bucket/a-repository")
            config = cluster.read_config_map(*dialect.config_map) if dialect.asks_config(manifest) else None
            obstacles = (*dialect.refused_pods(manifest, config), *preflight(manifest, config=config))
            found = "it is not deployed yet; nothing is seen that stands in the way of its first release"
        else:
            obstacles = observed.obstacles
            found = f"{observed.dialect} mode; a canary can work on it"
        for obstacle in obstacles:
            edit = (
                f"kubectl -n {spec.rollout.namespace} edit inferenceservice {spec.rollout.inference_service}"
            )
            yield self.failed(what, obstacle, remedy=edit)
        if not obstacles:
            yield self.ok(what, found)
