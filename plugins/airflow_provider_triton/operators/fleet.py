"""Loads a model on several servers, or on none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from pydantic import TypeAdapter, ValidationError

from airflow_provider_triton.errors import ServerUnavailableError, TritonError, UserError
from airflow_provider_triton.operators.base import LINKS, within
from airflow_provider_triton.operators.failures import airflow_failures
from airflow_provider_triton.operators.fields import config_or_none, names, pinned_versions, seconds
from airflow_provider_triton.operators.fleet_servers import PlainServers, States

if TYPE_CHECKING:
    from airflow.sdk import Context

_BEFORE = "fleet_before"
_BEFORE_KEPT = timedelta(days=7)
# Airflow gives a task that is killed a minute by default.
_KILLED_LIMIT_S = 10.0
_STATES = TypeAdapter(States)


class TritonFleetLoadOperator(BaseOperator):
    """Loads the same configuration of a model on several servers: all of them serve it in the end, or none does.

    Reads what each server has, loads on all at the same time, and compares what each serves then with what was asked
    for. Should one fail, each is led back to what it had: to its versions and configuration, or unloaded. Between the
    first load and the last the servers answer differently; no server is without the model, for Triton replaces it
    while the one before serves on.

    What the servers had is kept in the task's state store before anything is loaded. So the task may be run again
    after it was killed: it goes on with the loads, or leads back to what was there before the first try. When it is
    ended by a person, it leads back at once.

    :param model_name: the model's folder in the servers' repositories (templated).
    :param config: the whole configuration, which pins the versions, as of `TritonLoadModelOperator` (templated).
    :param triton_conn_ids: the servers' connections; a list or JSON text (templated).
    :param timeout_s: limit for the loads, and as much again for the way back (templated).
    :returns: for each connection ``versions`` and ``config_sha256``.
    """

    template_fields: Sequence[str] = ("model_name", "config", "triton_conn_ids", "timeout_s")
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        model_name: str,
        config: str | Mapping[str, Any],
        triton_conn_ids: str | Sequence[str],
        timeout_s: float | str = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name = model_name
        self.config = config
        self.triton_conn_ids = triton_conn_ids
        self.timeout_s = timeout_s
        self._under_way: States | None = None

    @property
    def triton_conn_id(self) -> str:
        """Return the first server's connection, for the link."""
        return (names(self.triton_conn_ids, "triton_conn_ids") or [""])[0]

    def execute(self, context: Context) -> dict[str, Any]:
        """Load on all, or lead all back."""
        with airflow_failures():
            return self._load(context)

    def on_kill(self) -> None:
        """Lead the servers back: whoever ends the task in the middle wants no fleet that is of two minds."""
        before, self._under_way = self._under_way, None
        if before is None:
            return
        try:
            errors = within(_KILLED_LIMIT_S, self._servers(_KILLED_LIMIT_S).take_back(before))
        except TritonError as error:
            self.log.warning("the servers could not be restored: %s", error)
            return
        for conn_id, left in errors.items():
            self.log.warning("%s could not be restored: %s", conn_id, left)

    def _servers(self, limit_s: float) -> PlainServers:
        conn_ids = names(self.triton_conn_ids, "triton_conn_ids")
        if not conn_ids or len(set(conn_ids)) != len(conn_ids):
            raise UserError(
                "a fleet must have at least one server, each listed once",
                expected="connections in `triton_conn_ids`",
                found=", ".join(conn_ids) or "none",
                remedy="correct the DAG",
            )
        return PlainServers(conn_ids, self.model_name, limit_s)

    def _load(self, context: Context) -> dict[str, Any]:
        config, limit_s = config_or_none(self.config), seconds(self.timeout_s, "timeout_s")
        versions = pinned_versions(config)
        if config is None or not versions:
            raise UserError(
                f"the configuration for loading {self.model_name!r} does not pin a version",
                expected="`version_policy.specific.versions`",
                remedy="pin the versions that all servers shall serve",
            )
        servers, store = self._servers(limit_s), context.get("task_state_store")
        now = within(limit_s, servers.states())
        before = self._before(store, now, tuple(versions))
        self._under_way = before
        try:
            loaded = within(limit_s, servers.load(config, versions))
        except TritonError as error:
            self._led_back(within(limit_s, servers.take_back(before)), error)
            self._over(store)
            raise
        self._over(store)
        return {
            conn_id: {"versions": list(state.versions), "config_sha256": state.config_sha256}
            for conn_id, state in loaded.items()
        }

    def _before(self, store: Any, now: States, wanted: tuple[int, ...]) -> States:
        """Return what the servers had before the first try of this task, and keep it."""
        kept = _kept(store)
        if kept is not None and set(kept) == set(now):
            ours = all(now[one].versions in (kept[one].versions, wanted) for one in now)
            if ours:  # else another has loaded something since
                self.log.info("an earlier try was interrupted: the state that it found is the one to restore")
                return kept
        if store is not None:
            store.set(_BEFORE, _STATES.dump_python(now, mode="json"), retention=_BEFORE_KEPT)
        return now

    def _over(self, store: Any) -> None:
        self._under_way = None
        if store is not None:
            store.delete(_BEFORE)

    def _led_back(self, errors: Mapping[str, TritonError], cause: TritonError) -> None:
        """Tell of the servers that could not be led back; the task is tried again then, whatever the cause."""
        if not errors:
            self.log.info("each server has its previous state again")
            return
        left = "; ".join(f"{conn_id}: {error.in_short()}" for conn_id, error in errors.items())
        raise ServerUnavailableError(
            f"{self.model_name!r} could not be loaded on all servers, and not restored on {', '.join(errors)}",
            expected="all servers in their previous state",
            found=f"{left}; the load: {cause.in_short()}",
            remedy="fix the named servers; the next try of this task continues from here",
        ) from cause


def _kept(store: Any) -> States | None:
    found = None if store is None else store.get(_BEFORE)
    try:
        return None if found is None else _STATES.validate_python(found)
    except ValidationError:  # of another version of this task
        return None
