"""What each image of include/images needs to be built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slipway_infrastructure.manifests import IMAGES, INCLUDE, image_names

_ARGUMENT = re.compile(r"^ARG ([A-Z_]+)(?:=(.*))?$", re.MULTILINE)
# A default of these Dockerfiles that no registry has: it names what must be given.
_NO_DEFAULT = "give-build-arg-"


class ImageArgumentsError(Exception):
    """An image can't be built with what was given; the message says what is missing or wrong."""


@dataclass(frozen=True)
class Image:
    """An image to build.

    :param name: its folder in include/images.
    :param reference: the name and tag that it is pushed under.
    :param arguments: build arguments.
    """

    name: str
    reference: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def build_words(self) -> list[str]:
        """The words of a build, as Docker, Podman and Buildah understand them."""
        given = [f"--build-arg={name}={value}" for name, value in self.arguments.items()]
        dockerfile = IMAGES / self.name / "Dockerfile"
        return [*given, "-f", str(dockerfile), "-t", self.reference, str(INCLUDE)]


def chosen(only: str) -> list[str]:
    """Return the names of the images that a list with commas names; all if it is empty.

    :raises ImageArgumentsError: there is no image of a name.
    """
    known = image_names()
    named = [name.strip() for name in only.split(",") if name.strip()]
    for name in named:
        if name not in known:
            raise ImageArgumentsError(f"no image is named {name!r}; the images are {', '.join(known)}")
    return sorted(set(named)) or known


def by_image(words: list[str]) -> dict[str, dict[str, str]]:
    """Return build arguments by image: each word is IMAGE:NAME=VALUE.

    :raises ImageArgumentsError: a word is not of that form, or names no image.
    """
    found: dict[str, dict[str, str]] = {}
    for word in words:
        match = re.fullmatch(r"([a-z-]+):([A-Z_]+)=(.+)", word)
        if match is None:
            raise ImageArgumentsError(f"{word!r} is not of the form IMAGE:NAME=VALUE")
        (image,) = chosen(match[1])
        found.setdefault(image, {})[match[2]] = match[3]
    return found


def with_release(name: str, arguments: Mapping[str, str], release: str) -> dict[str, str]:
    """Return an image's arguments; if its base depends on the servers' release, that is among them.

    :param release: YY.MM of the servers' image, or an empty text.
    :raises ImageArgumentsError: an argument without a default is missing, or the Dockerfile doesn't know one.
    """
    declared = dict(_ARGUMENT.findall((IMAGES / name / "Dockerfile").read_text(encoding="utf-8")))
    if unknown := sorted(arguments.keys() - declared.keys()):
        raise ImageArgumentsError(f"the Dockerfile of {name} has no argument {unknown[0]}")
    given = dict(arguments)
    if "RELEASE" in declared and release and "BASE_IMAGE" not in given:
        given.setdefault("RELEASE", release)
    required = {one for one, default in declared.items() if _is_required(name, one, default)}
    missing = sorted(required - given.keys() - ({"RELEASE"} if "BASE_IMAGE" in given else set()))
    if missing:
        how = "--release YY.MM" if missing[0] == "RELEASE" else f"--build-arg {name}:{missing[0]}=…"
        raise ImageArgumentsError(f"{name} needs {how}, or name other images with --only")
    return given


def _is_required(name: str, argument: str, default: str) -> bool:
    text = (IMAGES / name / "Dockerfile").read_text(encoding="utf-8")
    return default.startswith(_NO_DEFAULT) or f"\nARG {argument}\n" in text
