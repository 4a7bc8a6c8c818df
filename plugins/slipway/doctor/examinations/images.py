"""The pods' images: a node has pulled them, or their registry has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway.doctor.registry_manifest import manifest_status
from slipway_core.doctor.images import images_of, parse_image, pods_of_image, pull_command, seen_finding
from slipway_core.doctor.line import Line


@EXAMINATIONS.register
class ImagesExamination(Examination):
    """Looks at the pods that are there, then asks the registry, without credentials, for the manifest.

    Whether a node can pull an image is known for sure only where one has.
    """

    name: ClassVar[str] = "images"
    place: ClassVar[int] = 100
    why: ClassVar[str] = (
        "a pod whose image cannot be pulled never starts, and the release waits ten minutes for it"
    )
    limit_s: ClassVar[float] = 120.0

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each image."""
        namespace = installation.pods_namespace
        pods = installation.cluster().pods(namespace, "")
        secrets = {
            image: list(spec.conversion.image_pull_secrets)
            for spec in installation.specs.values()
            for image in images_of([spec])
        }
        for image, models in images_of(installation.specs.values()).items():
            seen = seen_finding(image, models, *pods_of_image(pods, image))
            if seen is not None:
                yield self.of_finding(seen)
            else:
                yield self._asked(image, pull_command(image, namespace, secrets.get(image, [])))

    def _asked(self, image: str, command: str) -> Line:
        what, name = f"image {image}", parse_image(image)
        if not name.registry:
            found = "its name has no registry, so the nodes' default decides; no pod with it is there"
            return self.unknown(what, found, expected="REGISTRY/NAME:TAG", remedy=command)
        status = manifest_status(name)
        if status == 200:
            return self.ok(what, f"{name.registry} has its manifest, for anybody; no node was asked")
        if status == 404:
            return self.failed(
                what,
                f"{name.registry} has no manifest {name.reference}",
                remedy=f"docker push {image}; docs/cluster.md says how images are built",
            )
        if status in (401, 403):
            found = f"{name.registry} asks for credentials, which only the nodes and the pull secret have"
            return self.unknown(what, found, remedy=command)
        shown = f"HTTP {status}" if isinstance(status, int) else status
        return self.unknown(what, f"{name.registry}: {shown}", remedy=command)
