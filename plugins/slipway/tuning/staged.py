"""Trials on the staging server: one setting under a name of its own, loaded by a configuration override.

Neither the names that a release uses there nor a live server is touched. Triton keeps an override until the model is
unloaded, so each trial is unloaded before the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_triton.client.results import READY
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.registry.registry import ModelRegistry
from slipway_core.bucket_layout import Role, staged_key, staged_name, staged_prefixes
from slipway_core.errors import LoadRefusedError, TimedOutError
from slipway_core.publishing.manifest import Manifest
from slipway_core.triton_config.build import pin_versions, rename_config
from slipway_core.triton_config.ensemble import departures
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import to_pbtxt
from slipway_core.tuning.settings import Setting, config_with
from slipway_rules.version_manifest import CONFIG_FILE

ROLES: tuple[Role, Role] = ("trial", "reference")
_AT_WORK = {READY, "LOADING", "UNLOADING"}
_POLL_INTERVAL_S = 0.2


def trial_names(model: str) -> list[str]:
    """Return the names that a tuning of the model uses on the staging server."""
    return [staged_name(model, role) for role in ROLES]


def place_trials(store: ModelStoreHook, manifest: Manifest, config: Mapping[str, Any]) -> None:
    """Copy the version into the staging server's repository, once for each role."""
    registry = ModelRegistry(store)
    for name in trial_names(manifest.model):
        registry.copy_to_staging(manifest, name)
        key = staged_key(f"{name}/{CONFIG_FILE}", name)
        store.write(key, to_pbtxt(rename_config(config, name)).encode())


def remove_trials(store: ModelStoreHook, model: str) -> None:
    """Remove the copies from the staging server's repository."""
    for name in trial_names(model):
        for entry in store.entries(staged_prefixes(name)[0]):
            store.delete(entry.key)


class StagedTrials:
    """Loads settings of one version on a staging server, and unloads them.

    :param config: the published configuration.
    :param timeout_s: limit of one load, and of one unload.
    """

    def __init__(
        self, hook: TritonHook, model: str, version: int, config: Mapping[str, Any], timeout_s: float
    ) -> None:
        self._hook = hook
        self._model = model
        self._version = version
        self._config = config
        self._timeout_s = timeout_s

    def load(self, role: Role, setting: Setting) -> str:
        """Load a setting in place of what the role had; return its name on the server.

        :raises LoadRefusedError: the server does not load it, or does not serve it as it was loaded.
        """
        name = staged_name(self._model, role)
        unload_models(self._hook, [name], self._timeout_s)
        config: Config = rename_config(
            pin_versions(config_with(self._config, setting), [self._version]), name
        )
        self._hook.load(name, config)
        await_ready(self._hook, name, self._timeout_s)
        found = departures(config, self._hook.config(name, self._version))
        if found:
            raise LoadRefusedError(
                f"Triton at {self._hook.address} does not serve {name!r} as configured",
                expected=setting.label(),
                found="; ".join(found),
                remedy="find out what else loads models on this server, and run the task again",
            )
        return name

    def unload(self) -> None:
        """Unload whatever a tuning of this model has loaded."""
        unload_models(self._hook, trial_names(self._model), self._timeout_s)


def unload_models(hook: TritonHook, names: Iterable[str], timeout_s: float) -> None:
    """Unload models and wait until the server has let them go; one that is not loaded is no error.

    One that is just being loaded, for a task that was killed, is waited for first.

    :param timeout_s: limit for each.
    """
    for name in names:
        deadline = time.monotonic() + timeout_s
        while states := _states(hook, name) & _AT_WORK:
            if READY in states:
                hook.unload(name)
            _pause(hook, name, deadline, "gone", states)


def await_ready(hook: TritonHook, name: str, timeout_s: float) -> None:
    """Wait until a model that was loaded is ready, every version of it.

    :raises TimedOutError: it is not in time.
    """
    deadline = time.monotonic() + timeout_s
    while (states := _states(hook, name)) != {READY}:
        _pause(hook, name, deadline, "ready", states)


def _pause(hook: TritonHook, name: str, deadline: float, wanted: str, states: set[str]) -> None:
    if time.monotonic() > deadline:
        raise TimedOutError(
            f"{name!r} on Triton at {hook.address} did not become {wanted} in time",
            found=", ".join(sorted(states)) or "no entry for it in the server's index",
            remedy="read the server's log",
        )
    time.sleep(_POLL_INTERVAL_S)


def _states(hook: TritonHook, name: str) -> set[str]:
    """Return the states of a model's versions in the server's index."""
    return {entry.state for entry in hook.index() if entry.name == name and entry.version is not None}
