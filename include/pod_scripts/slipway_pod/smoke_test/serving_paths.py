"""Absolute paths in a version's configurations, as this pod's own server has them.

A backend that reads files by itself, such as TensorRT-LLM's, learns from string parameters where they are:
`/mnt/models/MODEL/VERSION/…`, where KServe lays the repository. Here it lies in the pod's scratch volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipway_pod.models.triton_files import config_text, invalid, read_config
from slipway_pod.program.progress import say
from slipway_rules.version_manifest import CONFIG_FILE


def lead_here(repository: Path, roots: Sequence[str]) -> None:
    """Rewrite each string parameter that begins with one of `roots` to the folder of this pod's repository.

    A configuration without such a path stays as it was published, byte by byte.

    :raises PodError: of kind ModelInvalidError, for a path into a model that the version does not have.
    """
    prefixes = sorted({root.rstrip("/") for root in roots}, key=len, reverse=True)
    for path in sorted(repository.glob(f"*/{CONFIG_FILE}")):
        content = path.read_bytes()
        if not any(prefix.encode() in content for prefix in prefixes):
            continue
        name = f"{path.parent.name}/{CONFIG_FILE}"
        config = read_config(path, name, "publish the version again")
        moved = 0
        for key, parameter in config.parameters.items():
            below = _below(parameter.string_value, prefixes)
            if below is None:
                continue
            _require_model(repository, below, f"the parameter `{key}` in {name}")
            parameter.string_value = f"{repository}/{below}".rstrip("/")
            moved += 1
        if moved:
            path.write_text(config_text(config), encoding="utf-8")
            say("paths", f"{name}: {moved} parameters lead to {repository}")


def _below(value: str, prefixes: Sequence[str]) -> str | None:
    """Return what comes after the root; None: the value is no path below one."""
    root = next((one for one in prefixes if value == one or value.startswith(f"{one}/")), None)
    return None if root is None else value.removeprefix(root).lstrip("/")


def _require_model(repository: Path, below: str, what: str) -> None:
    model = below.partition("/")[0]
    there = sorted(one.name for one in repository.iterdir() if one.is_dir())
    if model and model not in there:
        raise invalid(
            f"{what} is a path into a model that is not part of the version",
            expected=f"one of {', '.join(there)}",
            found=model,
            remedy="correct the parameter, and release a new version",
        )
