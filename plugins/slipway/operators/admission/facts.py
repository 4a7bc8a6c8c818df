"""What an admission reads before anything is decided: the release file, the upload, the record, and what is live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.airflow_run import is_by_hand, triggered_by
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.admission.golden_set import require_askable_golden_set
from slipway.operators.intake.release_files import require_release_file
from slipway.registry.deletion import require_not_deleted
from slipway.release_context import make_service
from slipway.release_record.history import ModelHistory, is_taken_back
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import StableVersion
from slipway.traffic.deployed import require_protocol_deployed
from slipway.traffic.reconciler import observe_service
from slipway.traffic.streams.preflight import require_source_read
from slipway.training_configs import require_stateless_source, training_configs
from slipway_core.bucket_layout import parse_storage_uri, repository_paths
from slipway_core.errors import UserError
from slipway_core.intake import IncomingVersion, parse_ready, require_files
from slipway_core.permission.admission import AdmissionFacts
from slipway_core.spec.release_file import ReleaseSpec, apply_overrides, load_model_spec
from slipway_core.spec.run_overrides import looser_than_file

if TYPE_CHECKING:
    from airflow.sdk import Context


def requested_spec(releases_dir: str, context: Context) -> ReleaseSpec:
    """Return the release file with what the run's form changed in it.

    :raises UserError: the run asks for less care than the file, and was not started by somebody whom the file names.
    """
    params = context["params"]
    if not is_by_hand(context):
        require_release_file(releases_dir, params["model"])
    spec = load_model_spec(Path(releases_dir), str(params["model"]), insists=True)
    rollout: dict[str, Any] = {name: params[name] for name in ("steps", "window_s") if params.get(name)}
    if params.get("wait_for_approval"):
        rollout["approval"] = {"before_canary": True}
    if not rollout:
        return spec
    asked = apply_overrides(spec, {"rollout": rollout}, "the run's parameters")
    looser = looser_than_file(spec.rollout, asked.rollout)
    if looser and triggered_by(context) not in spec.rollout.may_relax:
        raise UserError(
            f"the run asks for less care than the release file of {spec.model!r}",
            expected="steps and a window at least as strict as the file's",
            found="; ".join(looser),
            remedy="omit them, change the release file, or let a person named in `rollout.may_relax` start the run",
        )
    return asked


def require_landed(store: ModelStoreHook, spec: ReleaseSpec, version: int) -> datetime | None:
    """The version was never deleted; `ready.json` is there and about it, and what it names is there too.

    :returns: when `ready.json` was written, UTC.
    :raises UserError: something of the upload is missing or wrong.
    """
    paths = repository_paths(spec.model, version)
    require_not_deleted(store, paths)
    body = store.require(
        paths.ready,
        remedy="let training write it as the last object, or check the model and the version",
    )
    ready = parse_ready(body, IncomingVersion(spec.model, version))
    written = {entry.key: entry.written_at for entry in store.entries(paths.incoming)}
    present = [key.removeprefix(paths.incoming) for key in written]
    require_files(ready, present, spec.required_files())
    require_stateless_source(store, spec, version)
    require_askable_golden_set(store, spec, version)
    return written.get(paths.ready)


@dataclass(frozen=True)
class AdmissionReader:
    """Reads, under the model's lock, what `slipway_core.permission.admission` decides by.

    :param kubernetes_conn_id: the connection to the cluster that says what is live.
    """

    store: ModelStoreHook
    spec: ReleaseSpec
    version: int
    kubernetes_conn_id: str
    log: Any

    def facts(self, context: Context) -> tuple[AdmissionFacts, StableVersion | None]:
        """Return the facts, and the stable version with its place.

        :raises UserError: the run id was used before, or what is live or asked for cannot be released over.
        """
        spec, version, release_id = self.spec, self.version, context["run_id"]
        record = ReleaseRecord(self.store, spec.model, version, release_id)
        state = record.state() if record.started() else None
        if state is not None:
            record.require_own(getattr(context.get("dag_run"), "run_after", None))
        stable = self._stable()
        if stable is not None:
            service = make_service(spec.rollout, self.kubernetes_conn_id)
            require_source_read(spec, lambda: training_configs(self.store, spec, version), service)
        facts = AdmissionFacts(
            model=spec.model,
            version=version,
            release_id=release_id,
            state=state,
            live=None if stable is None else stable.version,
            taken_back=self._taken_back(triggered_by(context)),
            force=bool(context["params"].get("force")),
        )
        return facts, stable

    def _stable(self) -> StableVersion | None:
        """Return what is live now, from the cluster itself."""
        observed = observe_service(make_service(self.spec.rollout, self.kubernetes_conn_id))
        if observed is None or not observed.latest_rolledout:
            return None
        require_protocol_deployed(self.spec, observed)
        uri = observed.stable_uri
        return StableVersion(version=parse_storage_uri(uri)[1], storage_uri=uri)

    def _taken_back(self, who: str | None) -> int | None:
        """Return the newest other version where users were taken back from it; None where no person is needed.

        A release that nobody started may have waited for the lock of the one that was rolled back meanwhile.
        """
        if who or self.spec.rollout.after_rollback == "continue":
            return None
        history = ModelHistory(self.spec.model, self.store.listing, self.log.warning)
        newest = history.newest(but=self.version).version
        attempts = None if newest is None else history.attempts(newest)
        return newest if attempts is not None and is_taken_back(self.store, attempts) else None
