"""A fleet as its file says it: which model, which servers, what holds when one does not answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from slipway_core.errors import SpecError
from slipway_core.fleet.policy import FleetPolicy
from slipway_core.identifiers import validate_model_name
from slipway_core.spec.parts import DnsLabel, SpecPart
from slipway_rules.text_forms import MODEL_NAME_LIMIT, is_dns_label

FENCE_LABEL = "slipway.dev/serving"
_SUFFIX = ".yaml"

Port = Annotated[int, Field(ge=1, le=65535)]
ConnId = Annotated[str, Field(min_length=1, max_length=200)]


def _name(text: str) -> str:
    if not is_dns_label(text, MODEL_NAME_LIMIT):
        raise ValueError(
            f"must be lower-case letters, digits and inner hyphens, at most {MODEL_NAME_LIMIT} characters"
        )
    return text


Name = Annotated[str, AfterValidator(_name)]


class ServiceMembers(SpecPart):
    """The servers behind a Kubernetes Service."""

    name: DnsLabel
    namespace: DnsLabel = "models"
    http_port: Port = 8000
    """Of each pod, not of the Service."""
    grpc_port: Port = 8001
    triton_conn_id: ConnId = "triton_fleet"
    """TLS, token, headers and limits for all of them; its host is not used."""
    kubernetes_conn_id: ConnId = "kubernetes_default"
    fence_label: str = FENCE_LABEL
    """The Service selects pods by this label with the value `true`; a pod that is fenced gets `false`."""


class GoldenCheck(SpecPart):
    """The golden request that all servers must answer alike."""

    rows: Annotated[int, Field(ge=0, le=1000)] = 1
    """How many of the version's golden rows; 0: nothing is asked."""
    relative: Annotated[float, Field(ge=0, le=1)] = 1e-5
    absolute: Annotated[float, Field(ge=0)] = 1e-6


class FleetFile(SpecPart):
    """A fleet: its servers are those behind `service`, or those of `connections`."""

    fleet: Name
    model: Name
    service: ServiceMembers | None = None
    connections: tuple[ConnId, ...] = ()
    place_versions: bool = True
    """Copy each version to `fleets/FLEET/repository/` in the bucket, which is the servers' model repository. False:
    somebody else lays it in each server's own.
    """
    golden: GoldenCheck = GoldenCheck()
    policy: FleetPolicy = Field(default_factory=FleetPolicy)

    @model_validator(mode="after")
    def _one_kind_of_members(self) -> Self:
        if (self.service is None) == (not self.connections):
            raise ValueError("name either `service` or `connections`")
        if len(set(self.connections)) != len(self.connections):
            raise ValueError("each of `connections` is named once")
        return self


def load_fleet_file(folder: Path, fleet: str) -> FleetFile:
    """Read a fleet's file.

    :raises SpecError: there is none, it is wrong, or it is about another fleet.
    """
    from slipway_core.documents.yaml_source import parse_yaml_mapping
    from slipway_core.spec.complaints import explain

    path = folder / f"{validate_model_name(fleet)}{_SUFFIX}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fleets = list_fleets(folder)
        raise SpecError(
            f"the fleet {fleet!r} has no file that can be read",
            expected=path.name,
            found=getattr(error, "strerror", None) or str(error),
            remedy=f"name one of {', '.join(fleets)}, or write {path}"
            if fleets
            else f"write {path}: no fleet has a file yet",
        ) from error
    parsed = parse_yaml_mapping(text, path.name)
    try:
        found = FleetFile.model_validate_json(json.dumps(parsed.data))
    except ValidationError as error:
        raise explain(error, FleetFile, parsed) from error
    if found.fleet != fleet:
        raise SpecError(
            f"{path.name} is about another fleet",
            expected=f"`fleet: {fleet}`",
            found=f"`fleet: {found.fleet}`",
            remedy="Rename the file or correct the key: they must agree.",
        )
    return found


def list_fleets(folder: Path) -> list[str]:
    """Return the fleets that have a file in a folder, sorted; no file is opened."""
    if not folder.is_dir():
        return []
    stems = (path.stem for path in folder.iterdir() if path.suffix == _SUFFIX)
    return sorted(stem for stem in stems if is_dns_label(stem, MODEL_NAME_LIMIT))
