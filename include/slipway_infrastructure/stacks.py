"""The stacks, in the order in which they are deployed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from slipway_infrastructure.access import access
from slipway_infrastructure.cluster import cluster
from slipway_infrastructure.intake_queue import intake_queue
from slipway_infrastructure.network import network
from slipway_infrastructure.registry import registry
from slipway_infrastructure.roles import roles
from slipway_infrastructure.storage import storage
from slipway_infrastructure.template import Json

STACKS: Mapping[str, Callable[[], Json]] = {
    "registry": registry,
    "intake-queue": intake_queue,
    "storage": storage,
    "network": network,
    "cluster": cluster,
    "roles": roles,
    "access": access,
}


def write(folder: Path, names: list[str]) -> list[Path]:
    """Write the templates of some stacks as NAME.json into a folder, which is created; return the files.

    :raises KeyError: there is no stack of that name.
    :raises OSError: a policy can't be read, or a file can't be written.
    """
    made = {name: STACKS[name]() for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, document in made.items():
        file = folder / f"{name}.json"
        # One space: CloudFormation counts the bytes.
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        files.append(file)
    return files
