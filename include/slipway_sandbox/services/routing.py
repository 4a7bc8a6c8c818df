"""What the router shall do, as values: servers, and which host names lead to which of them."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_core.errors import SlipwayError


@dataclass(frozen=True)
class Backend:
    """A revision's server on 127.0.0.1."""

    revision: str
    http_port: int
    grpc_port: int


@dataclass(frozen=True)
class Mirror:
    """The ports on 127.0.0.1 that get copies of requests; nobody need listen there."""

    http_port: int
    grpc_port: int

    @property
    def name(self) -> str:
        """What Envoy's clusters are called after."""
        return f"mirror~{self.http_port}"


@dataclass(frozen=True)
class Ingress:
    """What answers to some host names: revisions with their percents, which sum to 100.

    `hosts` come without port; a request may carry any. With a `tag` its requests are counted apart from those of
    other ingresses. A `mirror` gets a copy of every request, with "-shadow" behind its host, and
    what it answers goes to nobody.
    """

    name: str
    hosts: tuple[str, ...]
    percents: tuple[tuple[str, int], ...]
    tag: str = ""
    mirror: Mirror | None = None

    def __post_init__(self) -> None:
        total = sum(percent for _, percent in self.percents)
        if total != 100 or any(percent < 0 for _, percent in self.percents):
            raise SlipwayError(
                f"The weights of '{self.name}' cannot be routed",
                expected="percents from 0 to 100 that sum to 100",
                found=", ".join(f"{revision}={percent}" for revision, percent in self.percents) or "none",
            )


@dataclass(frozen=True)
class Routing:
    """All that the router shall know: the servers, and who answers to which host."""

    backends: tuple[Backend, ...] = ()
    ingresses: tuple[Ingress, ...] = ()

    def __post_init__(self) -> None:
        known = {backend.revision for backend in self.backends}
        unknown = {
            revision for one in self.ingresses for revision, percent in one.percents if percent
        } - known
        if unknown:
            raise SlipwayError(
                "A route leads to a revision without a server",
                expected=f"one of {', '.join(sorted(known)) or 'none'}",
                found=", ".join(sorted(unknown)),
            )
