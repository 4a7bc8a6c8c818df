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

from include.model_release.errors import SlipwayError, TimedOutError
from slipway.failures import airflow_failures
from slipway.hooks.triton import TritonHook
from slipway.triggers.triton import TritonLoadModelTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_POLL_INTERVAL_S = 0.2


class TritonLoadModelOperator(BaseOperator):
    """Loads a model with a full configuration and waits until the versions that it pins are ready.

    A load names a model and not a version: what pins versions is ``version_policy.specific`` in the
    configuration, which must be whole (`include.model_release.repository.pin_versions`).

    :param model_name: the model's folder in the server's repository (templated).
    :param config: the whole configuration in Triton's JSON form, as a mapping or as JSON text (templated);
        ``null`` skips the task: there is nothing to load.
    :param triton_conn_id: the server.
    :param timeout_s: limit for the load and for getting ready after it.
    :param deferrable: wait in the triggerer instead of in a worker.
    """

    template_fields: Sequence[str] = ("model_name", "config")

    def __init__(
        self,
        *,
        model_name: str,
        config: str | dict[str, Any],
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float = 600.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.config = config
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s
        self.deferrable = deferrable

    def execute(self, context: Context) -> list[int]:
        """Loads; returns the versions that are ready."""
        with airflow_failures():
            return self.load()

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[int]:
        """Goes on when the server has answered the load."""
        with airflow_failures():
            return self.load_answered(event)

    def load(self) -> list[int]:
        """Asks for the load and waits, here or in the triggerer."""
        config = self._parsed_config()
        if config is None:
            raise AirflowSkipException("there is nothing to load")
        if self.deferrable:
            self.defer(
                trigger=TritonLoadModelTrigger(self.triton_conn_id, self.model_name, config, self.timeout_s),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout_s),
            )
        self._hook.load(self.model_name, config)
        return self._await_ready(config)

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Waits, after the trigger's event, for the versions to get ready."""
        if event["error"] is not None:
            raise SlipwayError.from_dict(event["error"])
        return self._await_ready(self._parsed_config() or {})

    @property
    def _hook(self) -> TritonHook:
        return TritonHook(self.triton_conn_id, self.timeout_s)

    def _parsed_config(self) -> dict[str, Any] | None:
        parsed = json.loads(self.config) if isinstance(self.config, str) else self.config
        return None if parsed is None else dict(parsed)

    def _await_ready(self, config: dict[str, Any]) -> list[int]:
        """Waits for the pinned versions, which an index may show a moment after the load's answer."""
        wanted = {int(version) for version in config["version_policy"]["specific"]["versions"]}
        hook, deadline = self._hook, time.monotonic() + self.timeout_s
        while not wanted <= (ready := hook.ready_versions(self.model_name)):
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{self.model_name!r} did not get ready on Triton at {hook.http_address}",
                    expected=f"versions {sorted(wanted)} within {self.timeout_s:.0f} s",
                    found=f"versions {sorted(ready)}",
                    remedy="read the server's log",
                )
            time.sleep(_POLL_INTERVAL_S)
        self.log.info("%s: versions %s are ready at %s", self.model_name, sorted(ready), hook.http_address)
        return sorted(ready)


class TritonUnloadModelOperator(BaseOperator):
    """Unloads models and waits until none of their versions is ready any more.

    Made to be a teardown: a model that is not loaded is no error.

    :param model_names: the models' names (templated).
    """

    template_fields: Sequence[str] = ("model_names",)

    def __init__(
        self,
        *,
        model_names: Sequence[str],
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_names = model_names
        self.triton_conn_id = triton_conn_id
        self.timeout_s = timeout_s

    def execute(self, context: Context) -> None:
        """Unloads each of the models."""
        hook = TritonHook(self.triton_conn_id, self.timeout_s)
        with airflow_failures():
            known = {entry["name"] for entry in hook.index()}
            for name in self.model_names:
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
