"""Loads a model with what it needs."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_triton.client.model_config import departures
from airflow_provider_triton.errors import LoadRefusedError, ModelNotLoadedError, TimedOutError, UserError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.operators.base import LINKS, defer_limit, result_of
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import Config, config_or_none, parsed, pinned_versions, seconds
from airflow_provider_triton.triggers.triton import TritonLoadModelTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_POLL_INTERVAL_S = 0.2
# What a load gets when those before it have taken all the time: enough to say so.
_LEAST_S = 1.0


class TritonLoadModelOperator(BaseOperator):
    """Loads a model with a full configuration and waits until the versions that it pins are ready.

    A load names a model and not a version: what pins versions is ``version_policy.specific`` in the configuration,
    which must be whole. In the end the server's own word on each configuration is compared with what was asked for.

    Run again, also after it was killed, it asks for the same loads again, which is harmless, and ends as the first run
    would have. A load that was asked for goes on in the server when the task is killed: a load that fails leaves what
    served before, so there is nothing to take back.

    :param model_name: the model's folder in the server's repository (templated).
    :param config: the whole configuration in Triton's JSON form, as a mapping or as JSON text (templated). Left out:
        the repository's own. ``null`` skips the task: there is nothing to load.
    :param files: files of the worker instead of the repository's: their paths by those in the model's folder
        (``{"1/model.onnx": "/data/model.onnx"}``; templated). They need a `config`, and are loaded by the worker, also
        where `deferrable` is set.
    :param members: the models that it needs, each with ``name`` and ``config``, in the order in which they are
        loaded before it; a list or JSON text (templated). Triton would load the steps of an ensemble by itself,
        but not what a program calls, and it would not say which of them it refuses.
    :param triton_conn_id: the server (templated).
    :param timeout_s: limit for all loads together, and as much again for getting ready after them (templated).
    :param deferrable: wait in the triggerer instead of in a worker.
    :returns: the versions of the model that are ready.
    """

    template_fields: Sequence[str] = (
        "model_name",
        "config",
        "files",
        "members",
        "triton_conn_id",
        "timeout_s",
    )
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_name: str,
        config: str | Mapping[str, Any] = "",
        files: Mapping[str, str] | None = None,
        members: str | Sequence[dict[str, Any]] = (),
        triton_conn_id: str = TritonHook.default_conn_name,
        timeout_s: float | str = 600.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.config = config
        self.files = files
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
        if self.deferrable and not self.files:
            self.defer(
                trigger=TritonLoadModelTrigger(self.triton_conn_id, models, self._limit_s),
                method_name="execute_complete",
                timeout=defer_limit(self._limit_s),
            )
        deadline = time.monotonic() + self._limit_s
        for name, config in models:
            left_s = max(_LEAST_S, deadline - time.monotonic())
            files = self._contents() if name == self.model_name else None
            TritonHook(self.triton_conn_id, left_s).load(name, config, files)
        return self._verified(models)

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Wait, after the trigger's event, for the versions to get ready."""
        result_of(event)
        return self._verified(self._models())

    @property
    def _limit_s(self) -> float:
        return seconds(self.timeout_s, "timeout_s")

    def _models(self) -> list[tuple[str, Config | None]]:
        """Return names and configurations in the order of their loads, the model itself last; empty for nothing."""
        if self.config == "":
            own = None
        elif (own := config_or_none(self.config)) is None:
            return []
        pinned_versions(own)  # what is nonsense is not asked for
        members = parsed(self.members) or []
        return [*((member["name"], member["config"]) for member in members), (self.model_name, own)]

    def _contents(self) -> dict[str, bytes] | None:
        """Return the files to load, by their paths in the model's folder."""
        if not self.files:
            return None
        if self.config == "":
            raise UserError(
                f"{self.model_name!r} is to be loaded with files but without a configuration",
                expected="both: with files, Triton reads nothing from the repository",
                remedy="give `config` as well",
            )
        try:
            return {path: Path(file).read_bytes() for path, file in self.files.items()}
        except OSError as error:
            raise UserError(
                f"a file for loading {self.model_name!r} cannot be read",
                expected="a file on the worker",
                found=f"{error.filename}: {error.strerror}",
                remedy="correct `files`",
            ) from error

    def departures(self, wanted: Config, served: Config) -> list[str]:
        """Say in words where the configuration that the server uses is not what was asked for."""
        return departures(wanted, served)

    def _verified(self, models: Sequence[tuple[str, Config | None]]) -> list[int]:
        """Wait until all are ready and hold the server's configurations against those asked for."""
        hook, ready = TritonHook(self.triton_conn_id, self._limit_s), list[int]()
        deadline = time.monotonic() + self._limit_s
        for name, config in models:
            ready = self._await_ready(hook, name, config, deadline)
            for version in ready:
                found = [] if config is None else self.departures(config, hook.config(name, version))
                if found:
                    raise LoadRefusedError(
                        f"Triton at {hook.address} does not serve {name!r} version "
                        f"{version} as it was loaded",
                        expected="the configuration of the load",
                        found="; ".join(found),
                        remedy="check what else loads models on this server, and run the task again",
                    )
        return ready

    def _await_ready(self, hook: TritonHook, name: str, config: Config | None, deadline: float) -> list[int]:
        """Wait for the pinned versions, or for any, which an index may show a moment after the load's answer."""
        wanted = set(pinned_versions(config))
        while not (ready := self._ready(hook, name)) or not wanted <= ready:
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{name!r} did not become ready on Triton at {hook.address}",
                    expected=f"{_versions(wanted)} within {self._limit_s:.0f} s",
                    found=f"versions {sorted(ready)}",
                    remedy="read the server's log",
                )
            time.sleep(_POLL_INTERVAL_S)
        self.log.info("%s: versions %s are ready at %s", name, sorted(ready), hook.address)
        return sorted(ready)

    def _ready(self, hook: TritonHook, name: str) -> frozenset[int]:
        if name != self.model_name or not self.files:
            return hook.ready_versions(name)
        # What was loaded with files of the caller's is in no index.
        try:
            return frozenset(hook.metadata(name).versions)
        except ModelNotLoadedError:
            return frozenset()


def _versions(wanted: Collection[int]) -> str:
    return f"versions {sorted(wanted)}" if wanted else "any version"
