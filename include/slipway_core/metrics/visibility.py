"""What a metrics source can see of requests, and what it cannot: declared beside each source, said wherever it counts.

`docs/metrics.md` has it as a table, which a test holds against these declarations; `slipway lint` names what the source
of a release file does not see; and so does every verdict that lets a step pass.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

WORDS = {
    "http_errors": "HTTP errors",
    "grpc_errors": "gRPC errors",
    "given_up": "requests that their clients gave up",
    "hanging": "requests that hang",
    "stream_errors": "errors inside streams",
    "latency": "latency",
}


@dataclass(frozen=True)
class Visibility:
    """What a source sees; None: that depends on selectors of the release file's own.

    :param http_errors: answers with an HTTP status of 400 and above.
    :param grpc_errors: gRPC statuses other than OK and CANCELLED, which come with an HTTP 200.
    :param given_up: requests that began and were never answered, since the client or the connection went.
    :param hanging: requests that began, and whose clients still wait.
    :param stream_errors: errors that are answered inside a stream that itself ends well.
    :param latency: how long answers took.
    """

    http_errors: bool | None = None
    grpc_errors: bool | None = None
    given_up: bool | None = None
    hanging: bool | None = None
    stream_errors: bool | None = None
    latency: bool | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """What it does not see, in words."""
        return self._words(False)

    @property
    def unsure(self) -> tuple[str, ...]:
        """What it may see or not, in words."""
        return self._words(None)

    def _words(self, wanted: bool | None) -> tuple[str, ...]:
        return tuple(WORDS[one.name] for one in fields(self) if getattr(self, one.name) is wanted)


UNKNOWN = Visibility()
"""A source of which nothing is declared: the release file's own selectors."""
ENVOY_SEES = Visibility(
    http_errors=True, grpc_errors=True, given_up=True, hanging=True, stream_errors=False, latency=True
)
"""An Envoy with clusters by revision and protocol, scraped directly or by a Prometheus."""
