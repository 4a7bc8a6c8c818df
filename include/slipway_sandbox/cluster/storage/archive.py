"""Objects on disk, so that a restart of the emulator, or its sudden end, does not forget them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from slipway_sandbox.cluster.resource_lookup import resource_of
from slipway_sandbox.cluster.resources import RESOURCES, KubeObject, Resource
from slipway_sandbox.host.files import replace_file

log = logging.getLogger(__name__)


class Archive:
    """One JSON file for each object under `folder`; a file is replaced in one step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, resource: Resource, obj: KubeObject) -> None:
        """Write `obj` over its earlier state."""
        if not resource.persistent:
            return
        replace_file(self._path(resource, obj), json.dumps(obj, sort_keys=True))

    def remove(self, resource: Resource, obj: KubeObject) -> None:
        """Forget `obj`."""
        if resource.persistent:
            self._path(resource, obj).unlink(missing_ok=True)

    def load(self) -> Iterator[tuple[Resource, KubeObject]]:
        """Yield all objects as last saved; a file that cannot be read is reported and passed over."""
        for resource in RESOURCES:
            for path in sorted((self._folder / resource.plural).glob("*/*.json")):
                try:
                    obj = json.loads(path.read_text(encoding="utf-8"))
                    yield resource_of(obj), obj
                except (OSError, ValueError) as error:
                    log.warning("Forgot the object in %s: expected JSON; found %s.", path.name, error)

    def _path(self, resource: Resource, obj: KubeObject) -> Path:
        metadata = obj["metadata"]
        return (
            self._folder / resource.plural / (metadata.get("namespace") or "_") / f"{metadata['name']}.json"
        )
