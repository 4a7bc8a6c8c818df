"""Triton's model-control API as operators; of use in any DAG, not only in a release."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from include.model_release.errors import LoadRefusedError, SlipwayError, TimedOutError
from include.model_release.triton_config.ensemble import departures
from slipway.failures import airflow_failures
from slipway.hooks.triton import TritonHook
from slipway.triggers.triton import TritonLoadModelTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_POLL_INTERVAL_S = 0.2
# What a load gets when those before it have taken all the time: enough to say so.
_LEAST_S = 1.0


class TritonLoadModelOperator(BaseOperator):
    """Loads a model with a full configuration and waits until the versions that it pins are ready.

    A load names a model and not a version: what pins versions is ``version_policy.specific`` in the
    configuration, which must be whole (`include.model_release.bucket_layout.pin_versions`). In the end the server's
    own word on each configuration is compared with what was asked for.

    :param model_name: the model's folder in the server's repository (templated).
    :param config: the whole configuration in Triton's JSON form, as a mapping or as JSON text (templated);
        ``null`` skips the task: there is nothing to load.
    :param members: the models that it needs, each with ``name`` and ``config``, in the order in which they are
        loaded before it; a list or JSON text (templated). Triton would load the steps of an ensemble by itself,
        but not what a program calls, and it would not say which of them it refuses.
    :param triton_conn_id: the server.
    :param timeout_s: limit for all loads together, and as much again for getting ready after them (templated).
    :param deferrable: wait in the triggerer instead of in a worker.
    """

    template_fields: Sequence[str] = ("model_name", "config", "members", "timeout_s")

    def __init__(
        self,
        *,
        model_name: str,
        config: str | dict[str, Any],
        members: str | Sequence[dict[str, Any]] = (),
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 600.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.config = config
        self.members = members
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s
        self.deferrable = deferrable

    def execute(self, context: Context) -> list[int]:
        """Load; return the versions of the model that are ready."""
        with airflow_failures():
            return self.load()

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[int]:
        """Go on when the server has answered the loads."""
        with airflow_failures():
            return self.load_answered(event)

    def load(self) -> list[int]:
        """Ask for the loads and wait, here or in the triggerer."""
        models = self._models()
        if not models:
            raise AirflowSkipException("there is nothing to load")
        if self.deferrable:
            self.defer(
                trigger=TritonLoadModelTrigger(self.triton_conn_id, models, self._limit_s),
                method_name="execute_complete",
                timeout=timedelta(seconds=self._limit_s),
            )
        deadline = time.monotonic() + self._limit_s
        for name, config in models:
            left_s = max(_LEAST_S, deadline - time.monotonic())
            TritonHook(self.triton_conn_id, left_s).load(name, config)
        return self._verified(models)

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Wait, after the trigger's event, for the versions to get ready."""
        if event["error"] is not None:
            raise SlipwayError.from_dict(event["error"])
        return self._verified(self._models())

    @property
    def _limit_s(self) -> float:
        return float(self.timeout_s)  # a template renders to text

    def _models(self) -> list[tuple[str, dict[str, Any]]]:
        """Return names and configurations in the order of their loads, the model itself last; empty for nothing."""
        config, members = _parsed(self.config), _parsed(self.members) or []
        if config is None:
            return []
        return [*((member["name"], member["config"]) for member in members), (self.model_name, config)]

    def _verified(self, models: Sequence[tuple[str, dict[str, Any]]]) -> list[int]:
        """Wait until all are ready and hold the server's configurations against those asked for."""
        hook, ready = TritonHook(self.triton_conn_id, self._limit_s), list[int]()
        deadline = time.monotonic() + self._limit_s
        for name, config in models:
            ready = self._await_ready(hook, name, config, deadline)
            for version in ready:
                found = departures(config, hook.config(name, version))
                if found:
                    raise LoadRefusedError(
                        f"Triton at {hook.http_address} serves {name!r} version {version} otherwise than it "
                        "was told to",
                        expected="the configuration of the load",
                        found="; ".join(found),
                        remedy="look for another that loads models on this server, and run the task again",
                    )
        return ready

    def _await_ready(self, hook: TritonHook, name: str, config: dict[str, Any], deadline: float) -> list[int]:
        """Wait for the pinned versions, which an index may show a moment after the load's answer."""
        wanted = {int(version) for version in config["version_policy"]["specific"]["versions"]}
        while not wanted <= (ready := hook.ready_versions(name)):
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{name!r} did not get ready on Triton at {hook.http_address}",
                    expected=f"versions {sorted(wanted)} within {self._limit_s:.0f} s",
                    found=f"versions {sorted(ready)}",
                    remedy="read the server's log",
                )
            time.sleep(_POLL_INTERVAL_S)
        self.log.info("%s: versions %s are ready at %s", name, sorted(ready), hook.http_address)
        return sorted(ready)


class TritonUnloadModelOperator(BaseOperator):
    """Unloads models and waits until none of their versions is ready any more.

    Made to be a teardown: a model that is not loaded is no error. Unloading an ensemble leaves its members
    loaded, so each is named, the ensemble first.

    :param model_names: the models' names in the order of their unloads; a list or JSON text (templated).
    """

    template_fields: Sequence[str] = ("model_names",)

    def __init__(
        self,
        *,
        model_names: str | Sequence[str],
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_names = model_names
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s

    def execute(self, context: Context) -> None:
        """Unload each of the models."""
        hook = TritonHook(self.triton_conn_id, self.timeout_s)
        with airflow_failures():
            known = {entry.name for entry in hook.index()}
            for name in _parsed(self.model_names) or []:
                if name in known:
                    hook.unload(name)
                    self._await_gone(hook, name)

    def _await_gone(self, hook: TritonHook, name: str) -> None:
        deadline = time.monotonic() + self.timeout_s
        while ready := hook.ready_versions(name):
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{name!r} is still served by Triton at {hook.http_address}",
                    expected=f"unloaded within {self.timeout_s:.0f} s",
                    found=f"versions {sorted(ready)} ready",
                    remedy="look for requests that do not end",
                )
            time.sleep(_POLL_INTERVAL_S)


def _parsed(value: Any) -> Any:
    """A field that a template may have rendered to JSON text."""
    return json.loads(value) if isinstance(value, str) else value
