"""From a fleet's file to the parts that a release of it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import slipway_core
from airflow_provider_triton.client.event_loop import run
from slipway.deployment.settings import folder_of, is_missing_folder
from slipway.fleet.members import Members, StaticMembers, with_control_over_grpc
from slipway.fleet.placing import place
from slipway.fleet.release import FleetRelease
from slipway.fleet.service_members import ServicePods
from slipway.fleet.store import FleetStore
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.registry.golden import load_golden_set
from slipway.registry.registry import ModelRegistry
from slipway.release_context import make_store
from slipway.release_record.holds import HoldReader
from slipway.release_record.record import ReleaseRecord
from slipway_core.errors import RaiseRefusedError
from slipway_core.fleet.alias import LoadedVersion, loaded_version
from slipway_core.fleet.document import RunNote
from slipway_core.fleet.fleet_file import FleetFile, list_fleets, load_fleet_file
from slipway_core.fleet.golden import GoldenRequest
from slipway_core.gates.validation.request_options import is_decoupled
from slipway_core.permission.raise_permission import fleet_refusal
from slipway_core.publishing.manifest import Manifest
from slipway_core.record.state import ReleaseState
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec
from slipway_core.triton_config.ensemble import Configs

FLEETS_VARIABLE = "SLIPWAY_FLEETS_DIR"


def fleets_dir() -> Path:
    """Return the folder with the fleets' files: `SLIPWAY_FLEETS_DIR`, or the project's own."""
    return folder_of(FLEETS_VARIABLE, Path(slipway_core.__file__).parents[1] / "fleets")


def may_have_fleets() -> bool:
    """Return whether there is a fleet, or whether that is not known because the folder is not there."""
    return is_missing_folder(FLEETS_VARIABLE) or bool(list_fleets(fleets_dir()))


def members_of(file: FleetFile) -> Members:
    """Return where the fleet's servers are known."""
    if file.service is None:
        servers = {conn_id: TritonHook(conn_id).settings for conn_id in file.connections}
        return StaticMembers({name: with_control_over_grpc(one) for name, one in servers.items()})
    return ServicePods(file.service)


@dataclass(frozen=True)
class FleetContext:
    """The parts of a fleet, and of one release of it.

    :param fleets: the folder with the fleets' files.
    :param releases: the folder with the release files.
    """

    fleets: Path
    releases: Path
    fleet: str
    bucket: str
    aws_conn_id: str = "aws_default"

    @cached_property
    def file(self) -> FleetFile:
        """The fleet's file."""
        return load_fleet_file(self.fleets, self.fleet)

    @cached_property
    def spec(self) -> ReleaseSpec:
        """The model's release file."""
        return load_model_spec(self.releases, self.file.model)

    @cached_property
    def store(self) -> ModelStoreHook:
        """The bucket."""
        return make_store(self.bucket, self.spec, self.aws_conn_id)

    def fleet_store(self) -> FleetStore:
        """Return the fleet's document."""
        return FleetStore(self.store, self.fleet, self.file.model)

    def published(self, version: int) -> tuple[Manifest, Configs, LoadedVersion]:
        """Return a published version, and how the servers load it.

        :raises InputMissingError: it was never published.
        :raises SigningRefusedError: the release file demands a signature, and it has none that holds.
        """
        registry = ModelRegistry(self.store)
        manifest, digest = registry.require_with_digest(self.file.model, version)
        configs = registry.configs(manifest)
        return manifest, configs, loaded_version(self.file.model, version, configs, digest)

    def place(self, version: int) -> bool:
        """Lay a version in the fleet's model repository; return whether anything was copied."""
        manifest, configs, wanted = self.published(version)
        if not self.file.place_versions:
            return False
        return place(self.store, self.fleet, manifest, wanted, configs)

    def require_permitted(self, version: int, triggered_by: str | None) -> None:
        """Return where users may get a version now.

        :raises RaiseRefusedError: its record does not show that it has passed its gates, or it was rejected since.
        :raises ReleaseHeldError: a freeze or a closed release window holds it, or nobody knows whether one does.
        :raises RecordError: the record cannot be right.
        :raises StoreUnavailableError: it could not be read.
        """
        model = self.file.model
        _, digest = ModelRegistry(self.store).require_with_digest(model, version)
        record = ReleaseRecord(self.store, model, version, "")
        state: ReleaseState | None = record.state() if record.started() else None
        refusal = fleet_refusal(state, manifest_sha256=digest)
        if refusal is not None:
            raise refusal
        if run(self.fleet_store().read()).version == version:
            return  # the fleet has it already: a server that joins gives it no more users
        overrides = () if state is None else state.overrides
        hold = HoldReader(self.store, model, self.spec.rollout.release_windows).hold(overrides, triggered_by)
        if hold is not None:
            error = hold.error(f"version {version} of {model!r} on the fleet {self.fleet!r}", refuse=False)
            raise error

    def release(
        self, version: int, run_id: str, triggered_by: str | None, is_running: Callable[[str], bool]
    ) -> FleetRelease:
        """Return the release of a version to this fleet."""
        manifest, configs, wanted = self.published(version)
        return FleetRelease(
            fleet=self.fleet,
            model=self.file.model,
            version=version,
            manifest_sha256=wanted.manifest_sha256,
            configs=configs,
            members=members_of(self.file),
            store=self.fleet_store(),
            run_id=run_id,
            permit=lambda: self.require_permitted(version, triggered_by),
            golden=self._golden(manifest, configs),
            policy=self.file.policy,
            is_running=is_running,
        )

    def way_back(self, left: RunNote) -> FleetRelease:
        """Return what leads back a release that was cut short: the servers, and nothing of what was published."""

        def refused() -> None:
            raise RaiseRefusedError(
                f"{left.run_id} can only be rolled back", expected="no need for a permission"
            )

        return FleetRelease(
            fleet=self.fleet,
            model=self.file.model,
            version=left.version,
            manifest_sha256=left.manifest_sha256,
            configs={},
            members=members_of(self.file),
            store=self.fleet_store(),
            run_id=left.run_id,
            permit=refused,
            policy=self.file.policy,
        )

    def _golden(self, manifest: Manifest, configs: Configs) -> GoldenRequest | None:
        check, config = self.file.golden, configs[self.file.model]
        if not check.rows or is_decoupled(configs.values()):  # such a model answers over a stream alone
            return None
        golden = load_golden_set(ModelRegistry(self.store), manifest, self.spec, config)
        # A model that takes requests of one size alone is asked one of them.
        first = golden.first(min(check.rows, golden.request_rows or check.rows))
        outputs = tuple(tensor.name for tensor in manifest.signature.outputs)
        return GoldenRequest(first.take(slice(0, first.rows)), outputs, check.relative, check.absolute)
