"""Paths in a model's parameters: where its server has the repository, and where the staging server has it.

A backend that reads files by itself, such as TensorRT-LLM's, reads absolute paths from string parameters:
`SERVING_ROOT/MODEL/VERSION/…`. In production the repository lies there as files. On staging the models have other
names, and the repository is an object store's; so the paths are rewritten to where that is mounted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slipway_core.errors import LoadRefusedError, ModelInvalidError
from slipway_core.triton_config.options import Config

# Where KServe's storage initializer lays the repository.
SERVING_ROOT = "/mnt/models"
EXTRA = "repository_path"


def names_files(configs: Mapping[str, Config], roots: Iterable[str] = (SERVING_ROOT,)) -> bool:
    """Return whether a string parameter begins with one of `roots`: its server must see the repository as files."""
    return any(True for config in configs.values() for _ in _paths(config, _prefixes(roots)))


def on_staging(
    configs: Mapping[str, Config],
    names: Mapping[str, str],
    *,
    repository_path: str | None,
    connection: str,
    roots: Iterable[str] = (SERVING_ROOT,),
) -> dict[str, Config]:
    """Return `configs` with each string parameter that begins with one of `roots` as the staging server has it.

    :param names: a model's name on staging by its name in the version's repository.
    :param repository_path: where the staging server has its repository as files; None if `connection` does not
        say.
    :raises LoadRefusedError: where that path is needed and not known.
    :raises ModelInvalidError: for a path into a model that the version does not have.
    """
    found = {name: dict(_paths(config, _prefixes(roots))) for name, config in configs.items()}
    if repository_path is None and any(found.values()):
        raise _nowhere(found, connection)
    moved = {}
    for name, config in configs.items():
        parameters = {
            key: {"string_value": _moved(name, key, below, names, str(repository_path).rstrip("/"))}
            for key, below in found[name].items()
        }
        moved[name] = (
            {**config, "parameters": {**config["parameters"], **parameters}} if parameters else config
        )
    return moved


def _prefixes(roots: Iterable[str]) -> list[str]:
    return sorted({root.rstrip("/") for root in roots}, key=len, reverse=True)


def _paths(config: Config, prefixes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the key of each parameter that is such a path, with what comes after the root."""
    for key, parameter in (config.get("parameters") or {}).items():
        value = str(parameter.get("string_value", ""))
        root = next((one for one in prefixes if value == one or value.startswith(f"{one}/")), None)
        if root is not None:
            yield key, value.removeprefix(root).lstrip("/")


def _moved(name: str, key: str, below: str, names: Mapping[str, str], repository_path: str) -> str:
    model, slash, rest = below.partition("/")
    if model and model not in names:
        raise ModelInvalidError(
            f"the parameter `{key}` of {name!r} is a path into a model that is not part of the version",
            expected=f"one of {', '.join(sorted(names))}",
            found=model,
            remedy="Correct the parameter, and release a new version.",
        )
    return f"{repository_path}/{names[model]}{slash}{rest}" if model else repository_path


def _nowhere(found: Mapping[str, Mapping[str, str]], connection: str) -> LoadRefusedError:
    named = [f"`{key}` of {name!r}" for name, keys in found.items() for key in keys]
    return LoadRefusedError(
        "the version names its files by absolute paths, and their folder on the staging server is unknown",
        expected=f"the extra `{EXTRA}` of the connection {connection!r}: the folder in which the staging server "
        "sees its model repository as files",
        found=f"no such extra; paths in {', '.join(named)}",
        remedy="Mount the bucket's prefix `staging` at the staging server, such as by Mountpoint for Amazon S3, and "
        "name the folder there.",
    )
