"""The kinds of object that the emulated API server knows, and where each has its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KubeObject = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind of object: `plural` is what the store and the URLs call it (`inferenceservices`)."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    # The status is written through a subresource only, as for every object that a controller reports on.
    has_status: bool = False
    # Kept on disk, so that a restart of the emulator does not forget it.
    persistent: bool = True
    # A type of Kubernetes' own outside the core group; others with a group are custom resources.
    built_in: bool = False
    # Only the emulator's own controllers write it; others read.
    read_only: bool = False
    # `metadata.managedFields` tells when it was last written, by the server's clock.
    tells_last_write: bool = False

    @property
    def api_version(self) -> str:
        """What stands in an object's `apiVersion`: `v1`, `serving.kserve.io/v1beta1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition made it known: it is checked by schema, and merged plainly."""
        return bool(self.group) and not self.built_in

    @property
    def has_generation(self) -> bool:
        """Whether `metadata.generation` counts the changes of its spec, which a controller follows."""
        return self.namespaced and self.has_status

    @property
    def qualified_plural(self) -> str:
        """The plural as error messages have it: `inferenceservices.serving.kserve.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """The kind as error messages have it: `InferenceService.serving.kserve.io`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def base_path(self) -> str:
        """The URL path of its group and version, without a closing slash."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


NAMESPACES = Resource("namespaces", "Namespace", short_names=("ns",), namespaced=False, has_status=True)
PODS = Resource("pods", "Pod", short_names=("po",), has_status=True)
CONFIG_MAPS = Resource("configmaps", "ConfigMap", short_names=("cm",))
EVENTS = Resource("events", "Event", short_names=("ev",), persistent=False)
INFERENCE_SERVICES = Resource(
    "inferenceservices",
    "InferenceService",
    group="serving.kserve.io",
    version="v1beta1",
    short_names=("isvc",),
    has_status=True,
)
LEASES = Resource("leases", "Lease", group="coordination.k8s.io", built_in=True, tells_last_write=True)
DEPLOYMENTS = Resource(
    "deployments",
    "Deployment",
    group="apps",
    short_names=("deploy",),
    has_status=True,
    persistent=False,
    built_in=True,
    read_only=True,
)
HTTP_ROUTES = Resource("httproutes", "HTTPRoute", group="gateway.networking.k8s.io", has_status=True)
KNATIVE_SERVICES = Resource(
    "services",
    "Service",
    group="serving.knative.dev",
    short_names=("ksvc",),
    has_status=True,
    persistent=False,
)
REVISIONS = Resource(
    "revisions",
    "Revision",
    group="serving.knative.dev",
    short_names=("rev",),
    has_status=True,
    persistent=False,
)
RESOURCES: tuple[Resource, ...] = (
    NAMESPACES,
    PODS,
    EVENTS,
    INFERENCE_SERVICES,
    LEASES,
    HTTP_ROUTES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    KNATIVE_SERVICES,
    REVISIONS,
)
