"""Which images the pods of releases are made of, and what is known of whether a node can pull them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.rollout.fields import items, mapping, text
from slipway_core.spec.release_file import ReleaseSpec

_REFUSED = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_LOCAL = "localhost"
_DIGESTED = "@"


@dataclass(frozen=True)
class ImageName:
    """An image's name, taken apart; `registry` is "" where the node's default decides, `reference` a tag or digest."""

    registry: str
    repository: str
    reference: str


def parse_image(name: str) -> ImageName:
    """Return the parts of an image's name."""
    rest, _, digest = name.partition(_DIGESTED)
    first, slash, behind = rest.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == _LOCAL)
    registry, path = (first, behind) if has_registry else ("", rest)
    repository, colon, tag = path.rpartition(":")
    if not colon:
        repository, tag = path, "latest"
    return ImageName(registry, repository, digest or tag)


def images_of(specs: Iterable[ReleaseSpec]) -> dict[str, list[str]]:
    """Return the images that the pods of releases name, each with the models that need it."""
    found: dict[str, list[str]] = {}
    for spec in specs:
        named = {spec.conversion.image, spec.benchmark.image}
        if spec.smoke_test is not None:
            named.add(spec.smoke_test.image)
        for image in sorted(filter(None, named)):
            found.setdefault(image, []).append(spec.model)
    return found


def pods_of_image(pods: Sequence[Mapping[str, Any]], image: str) -> tuple[str, str]:
    """Return the pod for which the image was pulled, and the reason why it was not for another one; "" for none."""
    pulled = refused = ""
    for pod in pods:
        name, status = text(mapping(pod.get("metadata")).get("name")), mapping(pod.get("status"))
        wanted = {
            text(one.get("name"))
            for one in items(mapping(pod.get("spec")).get("containers"))
            if text(one.get("image")) == image
        }
        for one in items(status.get("containerStatuses")):
            if text(one.get("name")) not in wanted:
                continue
            reason = text(mapping(mapping(one.get("state")).get("waiting")).get("reason"))
            if text(one.get("imageID")):
                pulled = name
            elif reason in _REFUSED:
                refused = f"{reason} of the pod {name}"
    return pulled, refused


def seen_finding(image: str, models: Sequence[str], pulled: str, refused: str) -> Finding | None:
    """Return what pods that are there say of an image; None: they say nothing."""
    what = f"image {image}"
    if pulled:
        return fine(what, f"a node has pulled it for the pod {pulled}")
    if refused:
        return Finding(
            what,
            Status.FAILED,
            refused,
            "an image that the nodes can pull",
            f"the pods of {', '.join(models)} do not start",
            f"kubectl describe pod {refused.rpartition(' ')[2]}; docs/containers.md says how images are built",
        )
    return None


def pull_command(image: str, namespace: str, secrets: Sequence[str]) -> str:
    """Return the command that has a node pull an image."""
    overrides = ""
    if secrets:
        names = ", ".join(f'{{"name": "{name}"}}' for name in secrets)
        overrides = f'--overrides=\'{{"spec": {{"imagePullSecrets": [{names}]}}}}\' '
    return (
        f"kubectl -n {namespace} run slipway-doctor-pull --rm -i --restart=Never --image={image} {overrides}"
        "--command -- true"
    )
