"""Staging: a published version on a Triton of its own, beside the stable one that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from include.model_release.engine import require_loadable
from include.model_release.ensemble import load_order, pin_bundle, rename_bundle
from include.model_release.manifest import SIGNATURE_FILE, Manifest, attachment
from include.model_release.repository import CONFIG_FILE, Role, staged_key, staged_model, staged_name
from include.triton_config import from_pbtxt, to_pbtxt
from slipway.hooks.registry import ModelRegistry
from slipway.hooks.signing import load_signing_key
from slipway.operators.base import ReleaseOperator, ReleaseStep, recorded_stage
from slipway.operators.triton import TritonLoadModelOperator
from slipway.ticket import TICKET_TEMPLATE, ReleaseTicket

if TYPE_CHECKING:
    from airflow.sdk import Context


class StagedMember(BaseModel):
    """A model that the staged one needs: its name on staging and the whole configuration to load."""

    model_config = ConfigDict(frozen=True)

    name: str
    config: dict[str, Any]


class StagedModel(BaseModel):
    """A version as the staging server knows it: the model's name there and the whole configuration to load.

    `members` are an ensemble's, in the order in which they can be loaded; they have the same version number.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    version: int
    config: dict[str, Any]
    members: tuple[StagedMember, ...] = ()


class Staging(BaseModel):
    """What is on staging for one release; there is no baseline where nothing is live yet."""

    model_config = ConfigDict(frozen=True)

    candidate: StagedModel
    baseline: StagedModel | None
    model_names: tuple[str, ...] = ()
    """All of them with their members, in the order in which they are unloaded: who calls goes before the called."""


class PrepareStagingOperator(ReleaseOperator):
    """Copies the candidate and the stable version into the staging server's model repository.

    Each gets a folder of its own, so that each is served with its own configuration and both can be measured in
    the same run.

    :return: a `Staging` as a mapping.
    """

    def run(self, context: Context) -> dict[str, Any]:
        """Copies both; the stage goes on when the candidate is loaded.

        :raises SigningRefusedError: a signature is demanded, and there is none or it does not hold.
        """
        with recorded_stage(self.record, "stage", goes_on=True):
            return self._prepare()

    def _prepare(self) -> dict[str, Any]:
        ticket = self.ticket
        stable = ticket.stable
        candidate = self._place(ticket, ticket.version, "candidate")
        baseline = None if stable is None else self._place(ticket, stable.version, "stable")
        staged = [candidate] if baseline is None else [candidate, baseline]
        staging = Staging(
            candidate=candidate,
            baseline=baseline,
            model_names=tuple(name for one in staged for name in _unload_order(one)),
        )
        return staging.model_dump(mode="json")

    def _place(self, ticket: ReleaseTicket, version: int, role: Role) -> StagedModel:
        """Copies one version, checked against its manifest, and pins it in the configurations to load.

        Its models get names of their own there, those of an ensemble's members included.

        :raises LoadRefusedError: it is an engine for another GPU or TensorRT than the release file declares.
        """
        registry, model = ModelRegistry(self.store), ticket.model
        manifest = registry.require(model, version)
        require_loadable(manifest.engines, ticket.spec.serving.hardware, where="the staging server")
        self._require_signed(registry, manifest, role)
        name = staged_name(model, role)
        registry.copy_to_staging(manifest, name)
        published = {one: from_pbtxt(text) for one, text in registry.config_texts(manifest).items()}
        names = {member: staged_model(model, member, name) for member in published}
        configs = rename_bundle(pin_bundle(published, version), names)
        for staged, config in configs.items():
            self.store.write(staged_key(f"{staged}/{CONFIG_FILE}", staged), to_pbtxt(config).encode())
        members = [StagedMember(name=one, config=configs[one]) for one in load_order(configs) if one != name]
        return StagedModel(name=name, version=version, config=configs[name], members=tuple(members))

    def _require_signed(self, registry: ModelRegistry, manifest: Manifest, role: Role) -> None:
        """Refuses what the release file's key has not signed, before a server reads any of it.

        The stable version may be older than the key; it serves already.
        """
        signing = self.ticket.spec.publish.signing
        if signing is None:
            return
        if role == "stable" and attachment(manifest, SIGNATURE_FILE) is None:
            self.log.warning("the stable version %s is not signed: older than the key", manifest.version)
            return
        registry.require_signed(manifest, load_signing_key(signing))


def _unload_order(staged: StagedModel) -> list[str]:
    return [staged.name, *(member.name for member in reversed(staged.members))]


class LoadCandidateOperator(ReleaseStep, TritonLoadModelOperator):
    """`TritonLoadModelOperator` for the candidate: whether it loads is the release's stage ``stage``."""

    template_fields: Sequence[str] = ("release", *TritonLoadModelOperator.template_fields)

    def __init__(
        self, *, release: str = TICKET_TEMPLATE, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id

    def load(self) -> list[int]:
        """Loads the candidate and records how that went."""
        with recorded_stage(self.record, "stage", resumed=True):
            return super().load()

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Goes on when the server has answered the load."""
        with recorded_stage(self.record, "stage", resumed=True):
            return super().load_answered(event)
