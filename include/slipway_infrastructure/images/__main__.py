"""Builds the images of include/images, pushes them to a registry, and writes their digests and packages.

python -m slipway_infrastructure.images REGISTRY [--only NAME,…] [--release YY.MM] [--build-arg IMAGE:NAME=VALUE]

All images are built before the first one is pushed. Log in to the registry with your engine first.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from slipway_infrastructure.images.dockerfiles import (
    Image,
    ImageArgumentsError,
    by_image,
    chosen,
    with_release,
)
from slipway_infrastructure.images.engine import PROGRAMS, Engine, EngineError, find_engine
from slipway_infrastructure.images.packages import PackagesError, list_packages, of_image, provide_tool
from slipway_infrastructure.images.pushed import references, write_down
from slipway_infrastructure.manifests import INCLUDE

ROOT = INCLUDE.parent
TOOLS = ROOT / "build"
REGISTRY = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
RELEASE = re.compile(r"[0-9]{2}\.[0-9]{2}")


def version() -> str:
    """Return the project's version, which is the images' tag by default."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(found["project"]["version"])


def revision() -> str:
    """Return the commit of the checkout; an empty text if git doesn't know one, or files were changed since."""
    words = ["git", "-C", str(ROOT)]
    try:
        clean = subprocess.run([*words, "diff", "--quiet", "HEAD"], capture_output=True, check=False)
        named = subprocess.run([*words, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return named.stdout.strip() if clean.returncode == named.returncode == 0 else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slipway_infrastructure.images",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("registry", help="registry and path, such as 111122223333.dkr.ecr.eu-west-1.amazonaws.com/slipway")
    add("--only", default="", metavar="NAME,…", help="the images (all of them)")
    add("--tag", default=version(), help="the images' tag (%(default)s)")
    add(
        "--release",
        default="",
        metavar="YY.MM",
        help="NVIDIA's release of your servers, for images on its base",
    )
    add(
        "--build-arg",
        action="append",
        default=[],
        metavar="IMAGE:NAME=VALUE",
        help="a build argument of one image",
    )
    add("--build-option", action="append", default=[], help="an option of the engine's build, for all images")
    add("--engine", default="", help=f"the program that builds and pushes ({', '.join(PROGRAMS)})")
    add("--insecure", action="store_true", help="reach the registry without TLS (Podman, Buildah)")
    add("--no-packages", action="store_true", help="write no lists of packages")
    add("--dry-run", action="store_true", help="print the builds, and do nothing")
    add("--to", type=Path, default=Path("dist/images"), help="the folder for what is written (%(default)s)")
    return parser


def _images(given: argparse.Namespace) -> list[Image]:
    for name, pattern, value in (
        ("registry", REGISTRY, given.registry),
        ("tag", TAG, given.tag),
        ("release", RELEASE, given.release or "26.07"),
    ):
        if not pattern.fullmatch(value):
            raise ImageArgumentsError(f"{value!r} cannot be the {name}")
    own = by_image(given.build_arg)
    names = chosen(given.only)
    if unused := sorted(own.keys() - set(names)):
        raise ImageArgumentsError(f"--build-arg names {unused[0]}, which is not built")
    labels = {"IMAGE_VERSION": given.tag, "IMAGE_REVISION": revision()}
    return [
        Image(
            name,
            f"{given.registry}/{name}:{given.tag}",
            {**labels, **with_release(name, own.get(name, {}), given.release)},
        )
        for name in names
    ]


def _build(engine: Engine, images: list[Image], options: list[str]) -> None:
    for image in images:
        began = time.monotonic()
        engine.build([*options, *image.build_words])
        print(f"built {image.reference} in {time.monotonic() - began:.0f} s", flush=True)


def _push(engine: Engine, images: list[Image]) -> dict[str, str]:
    digests = {}
    for image in images:
        digests[image.name] = engine.push(image.reference)
        print(f"pushed {image.reference}@{digests[image.name]}", flush=True)
    return digests


def main(arguments: list[str] | None = None) -> int:
    """Build, push and write down; return the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        images = _images(given)
    except ImageArgumentsError as error:
        parser.error(str(error))
    if given.dry_run:
        for image in images:
            print(shlex.join([given.engine or "docker", "build", *given.build_option, *image.build_words]))
        return 0
    try:
        engine = find_engine(given.engine, given.insecure)
        _build(engine, images, given.build_option)
        lists: dict[str, dict[str, Any]] = {}
        if not given.no_packages:
            tool = provide_tool(TOOLS)
            lists = {image.name: list_packages(engine, tool, image.reference) for image in images}
        digests = _push(engine, images)
        described = {
            name: of_image(document, f"{given.registry}/{name}", digests[name])
            for name, document in lists.items()
        }
        files = write_down(given.to, given.registry, given.tag, digests, described)
    except (EngineError, PackagesError, OSError, ValueError) as error:
        print(f"the images were not pushed, or not all of them: {error}", file=sys.stderr)
        return 1
    for reference in references(given.registry, given.tag, digests).values():
        print(reference)
    print(f"{files[0]} has the chart's values; {len(files) - 1} more files are in {given.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
